"""What is no store, or hardly one: a clear word, the right exit code, and nothing touched."""

from __future__ import annotations

import os
import random
from pathlib import Path

import lmdb
import msgspec
import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli.main import cli
from eventjobs.store.checkpoint import Checkpoint
from eventjobs.store.contract import StorageFull
from eventjobs.store.lmdb import snapshot
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.store.notes import SigningKey
from eventjobs.testing.processes import CoordinatorProcess
from eventjobs.tools.verify import fold
from eventjobs.tools.verify import verify as verification
from eventjobs.tools.verify.report import Outcome

PAGE = 4096


def run(*arguments: object, code: int) -> Result:
    """A command; its exit code must be `code`."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def verified(path: Path, code: int, *options: object) -> Result:
    """The command, which must leave everything around the path as it was."""
    before = contents(path.parent)
    done = run("verify", path, *options, code=code)
    assert contents(path.parent) == before
    return done


def test_sound_is_nought_and_damaged_is_one(store):
    """As text and as JSON; the text has a line for each check, and the sum of it in the last."""
    done = verified(store.directory, 0)
    size = store.head().size
    assert done.stdout.splitlines()[-1].startswith(f"sound: {size:,} records, root ")
    document = orjson.loads(verified(store.directory, 0, "--json").stdout_bytes)
    assert (document["outcome"], document["size"], document["first_bad_position"]) == ("sound", size, None)
    with store.raw() as database:
        database("log").flip((300).to_bytes(8))
    done = verified(store.directory, 1)
    assert "position 300 does not match its checksum" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("; the first bad record is at position 300")
    document = orjson.loads(verified(store.directory, 1, "--json", "--quick").stdout_bytes)
    assert (document["outcome"], document["first_bad_position"]) == ("damaged", 300)


def test_many_faults_are_counted_and_some_are_told(store):
    """The report stays short."""
    with store.raw() as database:
        for position in range(1, 101):
            database("log").flip(position.to_bytes(8))
    assert "and 80 more" in verified(store.directory, 1, "--quick").stdout
    (records,) = [
        check
        for check in orjson.loads(verified(store.directory, 1, "--quick", "--json").stdout_bytes)["checks"]
        if check["name"] == "records"
    ]
    assert (records["faults_total"], len(records["faults"])) == (100, 20)


def foreign(path: Path) -> None:
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        txn.put(b"somebody's", b"data")


NO_STORES = {
    "missing": (lambda path: None, "does not exist"),
    "an empty directory": (lambda path: path.mkdir(), "has no data.mdb"),
    "an empty file": (lambda path: path.write_bytes(b""), "is empty"),
    "an empty file in a directory": (lambda path: (path.mkdir(), (path / "data.mdb").touch()), "is empty"),
    "a text": (lambda path: path.write_text("hello\n" * 2000), "is not a store"),
    "noise": (lambda path: path.write_bytes(random.Random(1).randbytes(50_000)), "is not a store"),
    "another program's": (foreign, "of another program"),
}


@pytest.mark.parametrize("what", NO_STORES)
@pytest.mark.parametrize("options", [(), ("--quick",), ("--json",)], ids=["", "quick", "json"])
def test_what_is_no_store(tmp_path, what, options):
    """It cannot be looked at: one line on standard error, and 2."""
    make, words = NO_STORES[what]
    place = tmp_path / "here"
    make(place)
    done = verified(place, 2, *options)
    assert words in done.stderr and done.stderr.startswith("eventjobs: ") and done.stderr.count("\n") == 1
    assert done.stdout == ""
    for command in (("head",), ("prove", "1")):
        assert words in run(*command, "--data", place, code=2).stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_store_that_may_not_be_read(store):
    """The reason is told."""
    store.file.chmod(0)
    assert "Permission denied" in run("verify", store.directory, code=2).stderr


def test_a_directory_by_any_name(store, tmp_path):
    """Spaces, and bytes that are no UTF-8, in what is found and in what is not."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/an odd \xff name"))
    store.directory.rename(odd)
    assert "sound: " in verified(odd, 0).stdout
    assert r"an odd \xff name" in orjson.loads(run("verify", odd, "--quick", "--json", code=0).stdout_bytes)["store"]
    assert run("head", "--data", odd, code=0)
    (odd / "data.mdb").unlink()
    assert "there is no store" in run("verify", odd, code=2).stderr


def test_a_newer_store(store):
    """It is refused with its version, and left alone."""
    with store.raw() as database:
        database("meta").put(b"format", msgspec.msgpack.encode(99))
    assert "has format 99, this eventjobs knows up to 2; use a newer one" in verified(store.directory, 2).stderr


def test_a_damaged_format(store):
    """What is not known to be ours to read is not read."""
    with store.raw() as database:
        database("meta").flip(b"format")
    assert "does not match its checksum" in verified(store.directory, 2).stderr


def test_values_that_are_of_another_sort(store):
    """Of what the store says of itself, with the right checksum: refused or told, and no crash."""
    with store.raw() as database:
        meta = database("meta")
        rows = meta.rows()
        meta.put(b"format", rows[b"tree"])
    assert "a value cannot be read" in verified(store.directory, 2).stderr
    with store.raw() as database:
        meta = database("meta")
        meta.put(b"format", rows[b"format"])
        meta.put(b"projection:listing", rows[b"format"])
        meta.put(b"tree", rows[b"format"])
    assert verified(store.directory, 1).stdout.count("a value cannot be read") == 2


def test_what_the_store_says_of_itself_and_nobody_knows(store):
    """It is told that nobody looked at it."""
    with store.raw() as database:
        database("meta").put(b"notes", b"mine")
    assert "Not looked at, for it is not known here: meta: notes." in verified(store.directory, 0).stdout


@pytest.mark.parametrize("options", [(), ("--quick",)], ids=["", "quick"])
@pytest.mark.parametrize("pages", [1, 2, 3, 40, 120])
def test_a_truncated_file(store, pages, options):
    """Shorter than its own head says, whether a part or all is gone: damaged, without a crash."""
    os.truncate(store.file, PAGE * pages)
    code = 2 if pages == 1 and options else 1
    done = verified(store.directory, code, *options)
    if code == 1:
        assert "damaged" in done.stdout


def test_heads_that_are_damaged(store):
    """Either of LMDB's two heads, or both; when neither can be read it is no LMDB file any more."""
    whole = store.file.read_bytes()
    for places, code in (((PAGE + 16,), 1), ((16,), 2), ((16, PAGE + 16), 2)):
        changed = bytearray(whole)
        for place in places:
            changed[place] ^= 1
        store.file.write_bytes(changed)
        verified(store.directory, code)


@pytest.mark.parametrize("seed", range(12))
def test_a_bit_that_turned_anywhere(store, template, seed):
    """Whatever bit of the file is turned, a verification comes to an end; and where it finds nothing, there is nothing:
    everything that can be read is as it was."""
    chance = random.Random(seed)
    changed = bytearray(store.file.read_bytes())
    pages = len(changed) // PAGE
    place = chance.randrange(pages) * PAGE + chance.choice([chance.randrange(32), chance.randrange(PAGE)])
    changed[place] ^= 1 << chance.randrange(8)
    store.file.write_bytes(changed)
    before = store.bytes()
    done = CliRunner().invoke(cli, ["verify", str(store.directory)])
    assert done.exit_code in (0, 1, 2), f"{done.output} {done.exception!r}"
    assert store.bytes() == before
    if done.exit_code == 0:
        assert everything(store.directory) == everything(template)


def everything(directory: Path) -> dict[bytes, dict[bytes, bytes]]:
    env = lmdb.open(str(directory / "data.mdb"), subdir=False, readonly=True, lock=False, max_dbs=64)
    with env, env.begin() as txn:
        names = list(txn.cursor().iternext(values=False))
        return {name: dict(txn.cursor(db=env.open_db(name, txn=txn, create=False))) for name in names}


def test_a_file_that_ends_the_process(store):
    """A page that leads LMDB astray ends only the process that looks; the command says so, and in what."""
    whole = bytearray(store.file.read_bytes())
    for page in range(2, len(whole) // PAGE):
        whole[page * PAGE + 10 : page * PAGE + 16] = b"\xff" * 6
    store.file.write_bytes(whole)
    done = verified(store.directory, 1)
    assert "structure" in done.stdout and "damaged" in done.stdout


def test_kept_heads(store, tmp_path):
    """One that fits, one of another log, one of a longer log, and what is none."""
    head = store.head()
    kept = tmp_path / "head"
    kept.write_text(Checkpoint("eventjobs", head).text())
    assert "the log begins with the" in run("verify", store.directory, "--from-head", kept, code=0).stdout
    kept.write_text(Checkpoint("eventjobs", type(head)(head.size, bytes(32))).text())
    assert "the log was rewritten" in run("verify", store.directory, "--from-head", kept, code=1).stdout
    kept.write_text(Checkpoint("eventjobs", type(head)(head.size + 1, bytes(32))).text())
    assert "its tail was cut off" in run("verify", store.directory, "--quick", "--from-head", kept, code=1).stdout
    kept.write_text("no head")
    assert "three lines" in run("verify", store.directory, "--from-head", kept, code=2).stderr
    assert "cannot be read" in run("verify", store.directory, "--from-head", tmp_path / "gone", code=2).stderr


def test_signed_heads(store, tmp_path):
    """With a public key, only a head that it has signed is taken."""
    key, other = SigningKey.new("example.com/jobs"), SigningKey.new("example.com/jobs")
    kept, public = tmp_path / "head", tmp_path / "key.pub"
    kept.write_text(key.signed(Checkpoint("example.com/jobs", store.head()).text()))
    public.write_text(key.public_key.text())
    arguments = ("verify", store.directory, "--quick", "--from-head", kept, "--public-key", public)
    assert run(*arguments, code=0)
    kept.write_text(kept.read_text().replace("example.com/jobs\n", "example.com/jobz\n", 1))
    assert "not signed by the key" in run(*arguments, code=2).stderr
    kept.write_text(other.signed(Checkpoint("example.com/jobs", store.head()).text()))
    assert "not signed by the key" in run(*arguments, code=2).stderr
    public.write_text("nonsense")
    assert run(*arguments, code=2)
    assert "goes with --from-head" in run("verify", store.directory, "--public-key", public, code=2).stderr


def test_the_name_in_a_head(store, tmp_path):
    """It is said, if it is one; and a head of another name than is asked for is not taken, however right its root."""
    kept = tmp_path / "head"
    arguments = ("verify", store.directory, "--quick", "--from-head", kept)
    for name, told in (("prod", True), ("eventjobs", False)):
        kept.write_text(Checkpoint(name, store.head()).text())
        assert (f"is of a log named {name}." in run(*arguments, code=0).stdout) is told
        assert run(*arguments, "--origin", name, code=0)
        assert f"of a log named {name}, not other" in run(*arguments, "--origin", "other", code=2).stderr
    assert "--origin" in run("verify", store.directory, "--origin", "prod", code=2).stderr


def test_beside_a_running_coordinator(tmp_path):
    """The store is copied and verified; the coordinator goes on, and only LMDB's table of readers was touched."""
    with CoordinatorProcess(tmp_path) as coordinator:
        data = next(path.parent for path in tmp_path.rglob("data.mdb"))
        before = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "lock.mdb"}
        assert "sound: 0 records" in run("verify", data, code=0).stdout
        assert {path.name: path.read_bytes() for path in data.iterdir() if path.name != "lock.mdb"} == before
        url = ("--url", coordinator.url)
        run("enqueue", "k", "1", *url, code=0)
        assert "sound: 1 record, root" in run("verify", data, "--quick", code=0).stdout
        assert run("head", "--data", data, code=0).stdout == run("head", *url, code=0).stdout
        proved = run("prove", 1, "--data", data, code=0).stdout
        assert proved == run("prove", 1, *url, code=0).stdout
        run("enqueue", "k", "2", *url, code=0)


def test_nothing_is_left_behind(store, monkeypatch, tmp_path):
    """What is put into the directory for temporary files is gone afterwards."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    run("verify", store.directory, code=0)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_store_that_is_written_meanwhile(store, monkeypatch):
    """A coordinator that starts while the file is read spoils the look, not the store: it has to be taken again."""
    heads = iter([b"before", b"after"])
    monkeypatch.setattr(snapshot, "_head_bytes", lambda file: next(heads))
    with pytest.raises(NoStore, match="was written to while it was read; do it again"):
        verification.verify(store.directory, None, True, lambda *_: None)


def test_a_full_directory_for_temporary_files(store, monkeypatch):
    """Where the fold finds no room, what could be looked at is told, and it is said that it was not all; nothing is
    called damaged for want of room."""

    def no_room(*_: object) -> None:
        raise StorageFull("there is no room")

    monkeypatch.setattr(fold, "JOBS_IN_MEMORY_MAX", 1)
    monkeypatch.setattr(Scratch, "write", no_room)
    report = store.verify()
    assert report.outcome is Outcome.UNCHECKED
    assert {check.name: check.unchecked for check in report.checks if check.unchecked}["events"] == "there is no room"
    assert not any(check.faults for check in report.checks)
