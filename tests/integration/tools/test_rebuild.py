"""Read models and indexes made anew, offline: compared, put right in one commit, left alone where they are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lmdb
import pytest
from click.testing import CliRunner

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.store.contract import AlreadyOpen, Corrupt, StoreError
from eventjobs.store.lmdb import aside
from eventjobs.store.lmdb.aside import differences
from eventjobs.store.lmdb.tables import PROJECTION_PREFIX, database_name
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess
from eventjobs.tools.rebuild.rebuild import PROJECTIONS, WORK, check, rebuild
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify

MAP_SIZE = 64 << 20
ALL = list(PROJECTIONS.values())
NAMES = ("jobs", "listing", "stats")


def quiet(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def spoil(directory: Path) -> None:
    """Turn a bit of a job's row, take one row out of the listing, and add one to the statistics."""
    with lmdb.open(str(directory), max_dbs=128, map_size=MAP_SIZE) as env, env.begin(write=True) as txn:
        jobs, listing, stats = (
            env.open_db(database_name(PROJECTIONS[name].tables[0]).encode(), txn=txn, create=False) for name in NAMES
        )
        with txn.cursor(db=jobs) as cursor:
            cursor.first()
            key, stored = cursor.item()
        txn.put(key, stored[:-1] + bytes([stored[-1] ^ 1]), db=jobs)
        with txn.cursor(db=listing) as cursor:
            cursor.first()
            cursor.delete()
        txn.put(b"zzz\0zzz\0zzz", b"zzzzzzzz", db=stats)


def sound(directory: Path) -> bool:
    return verify(directory, None, False, quiet).outcome is Outcome.SOUND


def differing(findings) -> dict[str, int]:
    return {finding.name: finding.differing for finding in findings if not finding.same}


def test_a_sound_store_is_the_same_and_not_written(data):
    """Nothing differs, and not a byte of the file is changed by comparing nor by a rebuild."""
    before = bytes_of(data)
    assert differing(check(data, ALL, quiet)) == {}
    assert bytes_of(data) == before
    assert differing(rebuild(data, ALL, quiet)) == {}
    assert (data / "data.mdb").read_bytes() == before["data.mdb"]
    assert not (data / WORK).exists()


def test_what_differs_is_counted_named_and_put_right(data):
    """A damaged row, a missing one and one too many; afterwards the store is sound."""
    spoil(data)
    before = bytes_of(data)
    found = check(data, ALL, quiet)
    assert bytes_of(data) == before
    assert differing(found) == {"jobs": 1, "listing": 1, "stats": 1}
    assert found[0].first.startswith("jobs: ")
    assert not sound(data)
    assert rebuild(data, ALL, quiet) == found
    assert sound(data)
    assert differing(check(data, ALL, quiet)) == {}


def test_only_those_that_were_named_are_made_anew(data):
    """The others stay as they are, damaged or not."""
    spoil(data)
    assert differing(rebuild(data, [PROJECTIONS["jobs"]], quiet)) == {"jobs": 1}
    assert differing(check(data, ALL, quiet)) == {"listing": 1, "stats": 1}


def test_one_that_is_behind_is_brought_up(data):
    """Without its checkpoint it does not count as the same, and has one afterwards."""
    with lmdb.open(str(data), max_dbs=128, map_size=MAP_SIZE) as env, env.begin(write=True) as txn:
        assert txn.delete(PROJECTION_PREFIX + b"history", db=env.open_db(b"meta", txn=txn))
    assert differing(rebuild(data, ALL, quiet)) == {"history": 0}
    assert differing(check(data, ALL, quiet)) == {}


def test_a_store_in_use_is_refused_with_the_process_and_may_be_compared(data):
    """A rebuild beside a coordinator would write what it does not know of; comparing looks at a copy."""
    with CoordinatorProcess(data.parent) as coordinator:
        with pytest.raises(AlreadyOpen, match=rf"in use by a coordinator \(process {coordinator.process.pid}\)"):
            rebuild(data, ALL, quiet)
        assert differing(check(data, ALL, quiet)) == {}
        assert not (data / WORK).exists()
        assert coordinator.stop() == 0


def test_a_run_that_ends_before_the_commit_changes_nothing(data, monkeypatch):
    """Whatever ends it, the file is as it was, and nothing is left beside it."""
    spoil(data)
    before = (data / "data.mdb").read_bytes()

    def fail(*arguments: object) -> None:
        raise lmdb.DiskError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="there is no room .*nothing was changed"):
        patch.setattr(aside.LmdbTransaction, "set_progress", fail)
        rebuild(data, ALL, quiet)
    assert (data / "data.mdb").read_bytes() == before
    assert not (data / WORK).exists()


def test_a_killed_run_loses_nothing_and_is_cleared_away_by_the_next(data):
    """Killed while it folds; then the store opens as before, and the next run leaves nothing of the first."""
    spoil(data)
    before = (data / "data.mdb").read_bytes()
    script = data.parent / "run.py"
    script.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from eventjobs.tools.rebuild import rebuild\n"
        "rebuild.rebuild(Path(sys.argv[1]), list(rebuild.PROJECTIONS.values()),\n"
        "    lambda what, done, total: (print(what, flush=True), time.sleep(60)) if what == 'tables' else None)\n"
    )
    with ProgramProcess([sys.executable, str(script), str(data)], data.parent / "run.log") as program:
        program.wait_for_text("tables")
        program.kill()
    assert (data / WORK).exists()
    assert (data / "data.mdb").read_bytes() == before
    assert differing(rebuild(data, ALL, quiet)) == {"jobs": 1, "listing": 1, "stats": 1}
    assert not (data / WORK).exists()
    assert sound(data)


def test_a_damaged_log_makes_no_read_models(data):
    """What cannot be read cannot be folded, and the tables stay."""
    file = data / "data.mdb"
    content = bytearray(file.read_bytes())
    content[content.rindex(b'{"position":300,') + 15] ^= 1
    file.write_bytes(content)
    with pytest.raises(Corrupt):
        rebuild(data, ALL, quiet)
    assert file.read_bytes() == content


def test_the_command_says_what_it_found(data, tmp_path):
    """Exit codes 0 for done or the same, 1 for a difference, 2 for what cannot be done."""
    run = CliRunner().invoke
    same = run(cli, ["rebuild", "--data", str(data), "--check"])
    assert same.exit_code == 0 and same.stdout.count(" same ") == len(ALL)
    spoil(data)
    differs = run(cli, ["rebuild", "--data", str(data), "--check", "--only", "jobs", "--only", "ready"])
    assert differs.exit_code == 1
    assert differs.stdout.count("\n") == 3 and "1 differs (jobs: " in differs.stdout
    done = run(cli, ["rebuild", "--data", str(data), "--json"])
    assert done.exit_code == 0 and done.stdout.count('"same":false') == 3
    assert run(cli, ["rebuild", "--data", str(data), "--only", "nothing"]).exit_code == 2
    missing = subprocess.run(
        [sys.executable, "-m", "eventjobs", "rebuild", "--data", str(tmp_path / "missing")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 2 and "there is no store" in missing.stderr
    assert not (tmp_path / "missing").exists()


def test_differences_of_two_tables():
    """Rows that are only here are put, those only there taken away, changed ones put, equal ones passed over."""
    stored = [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")]
    made = [(b"b", b"2"), (b"c", b"1"), (b"d", b"1"), (b"e", b"1")]
    assert list(differences(iter(stored), iter(made))) == [(b"a", None), (b"b", b"2"), (b"c", b"1"), (b"e", b"1")]
    assert list(differences(iter([]), iter([]))) == []


def test_a_damaged_record_is_damage(data):
    """A log that cannot be read is told of with the exit code of damage, whether it is only compared or not."""
    with lmdb.open(str(data), max_dbs=128) as env, env.begin(write=True) as txn:
        log = env.open_db(b"log", txn=txn)
        key = (300).to_bytes(8, "big")
        txn.put(key, txn.get(key, db=log)[:-1] + b"?", db=log)
    for arguments in (["--check"], []):
        done = CliRunner().invoke(cli, ["rebuild", *arguments, "--data", str(data)])
        assert (done.exit_code, "does not match its checksum" in done.output) == (exits.REFUSED, True), done.output
