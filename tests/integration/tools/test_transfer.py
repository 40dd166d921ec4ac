"""export and import: what goes out comes in the same, and whatever is wrong on the way is found and named."""

from __future__ import annotations

import base64
import io
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.client import BlockingClient
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.contract import Head, StorageFull
from eventjobs.store.lmdb import open_engine
from eventjobs.testing.processes import wait_for
from eventjobs.tools.newstore import WORK, NewStore
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer import importing
from eventjobs.tools.transfer import walk as walking
from eventjobs.tools.verify.report import Outcome, Report
from eventjobs.tools.verify.verify import verify


def run(*arguments: object, code: int = exits.DONE, given: bytes | None = None) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments], input=given)
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


def command(*arguments: object) -> list[str]:
    """The same as a process of its own."""
    return [sys.executable, "-m", "eventjobs", *map(str, arguments)]


@pytest.fixture(scope="session")
def exported(template, tmp_path_factory) -> bytes:
    """The export of the store."""
    out = tmp_path_factory.mktemp("export") / "log.jsonl"
    run("export", "--data", template, "--out", out)
    return out.read_bytes()


@pytest.fixture
def file(exported, tmp_path) -> Path:
    """The export in a file."""
    (tmp_path / "log.jsonl").write_bytes(exported)
    return tmp_path / "log.jsonl"


def refused(tmp_path: Path, content: bytes, code: int = exits.REFUSED) -> str:
    """What import says of a content it must refuse; nothing may be left behind."""
    (tmp_path / "bad.jsonl").write_bytes(content)
    before = sorted(tmp_path.iterdir())
    done = run("import", tmp_path / "bad.jsonl", "--data", tmp_path / "never", code=code)
    assert sorted(tmp_path.iterdir()) == before
    return done.output


def size_of(file: Path) -> int:
    """The size in the last line."""
    return size_of_text(file.read_bytes())


def size_of_text(exported: bytes) -> int:
    return orjson.loads(exported.splitlines()[-1])["end"]["size"]


def test_what_goes_out_comes_in_the_same(data, file, tmp_path):
    """Records byte for byte, contents, head and every table; and the export of the import is the same file."""
    made = tmp_path / "made"
    assert f"imported: {size_of(file):,} records" in run("import", file, "--data", made).output
    with open_source(data) as one, open_source(made) as other:
        assert one.head() == other.head()
        assert list(one.entries()) == list(other.entries())
    run("verify", made)
    assert run("export", "--data", made).stdout_bytes == file.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "log.jsonl", "made"}


def test_an_empty_log_goes_out_and_in(tmp_path):
    """Nothing but the first line and the last; the store that is made can be opened."""
    open_engine(tmp_path / "data", force_filesystem=True).close()
    run("export", "--data", tmp_path / "data", "--out", tmp_path / "x")
    run("verify", tmp_path / "x")
    run("import", tmp_path / "x", "--data", tmp_path / "made")
    run("verify", tmp_path / "made")


def test_a_running_coordinator_is_exported_and_its_import_served(coordinator, tmp_path):
    """The export is that of one moment, and work goes on in the store that was made of it."""
    with BlockingClient(coordinator.url) as client:
        job = client.enqueue("email", {"to": "Ada ✉"})
        content = run("export", "--data", coordinator.data).stdout_bytes
    run("import", "-", "--data", tmp_path / "made", given=content)
    with open_source(tmp_path / "made") as source:
        assert [record.job_id for record in source.records()] == [job.id]


def test_an_export_is_found_sound(data, file):
    """verify looks at an export as at a store; a head that was kept is held against it, whatever its size."""
    size = size_of(file)
    report = orjson.loads(run("verify", file, "--json").stdout_bytes)
    assert [check["name"] for check in report["checks"]] == ["records", "tree", "events", "contents"]
    assert (report["outcome"], report["size"], [c for c in report["checks"] if not c["facts"]]) == ("sound", size, [])
    assert [c["name"] for c in orjson.loads(run("verify", file, "--quick", "--json").stdout_bytes)["checks"]] == [
        "records",
        "tree",
    ]
    engine = open_engine(data, force_filesystem=True)
    with engine.read() as reader:
        roots = {size: reader.root(size) for size in (0, 1, 255, 256, 257, 512, size)}
    engine.close()
    for size, root in roots.items():
        assert verified(file, Head(size, root), quick=size % 2 == 0).outcome is Outcome.SOUND
        assert "rewritten" in fault(verified(file, Head(size, bytes(32)), quick=True))
    assert "cut off" in fault(verified(file, Head(size + 1, bytes(32)), quick=True))


def verified(file: Path, kept: Head | None = None, quick: bool = False) -> Report:
    """What verify finds."""
    return verify(file, kept, quick, lambda what, done, total: None)


def fault(report: Report) -> str:
    """The one thing that is wrong."""
    (found,) = [each for check in report.checks for each in check.faults]
    return found.text


def base64_of(value: bytes) -> str:
    """As heads have it."""
    return base64.b64encode(value).decode()


def test_what_was_altered_is_named(exported, tmp_path):
    """A record that still reads, a content, a record left out, put in twice, or moved: each with its line."""
    lines = exported.splitlines(keepends=True)
    records = [place for place, line in enumerate(lines) if line.startswith(b'{"position"')]
    place = next(each for each in records if b'"priority":1' in lines[each])

    def changed(at: int, line: bytes) -> bytes:
        return b"".join([*lines[:at], line, *lines[at + 1 :]])

    said = refused(tmp_path, changed(place, lines[place].replace(b'"priority":1', b'"priority":2')))
    assert "positions 1 to 256 are not what the tree was made of" in said
    said = refused(tmp_path, changed(place, lines[place].replace(b'"version":1,', b'"version":2,')))
    assert f"line {place + 1}: position 1 is version 2" in said
    said = refused(tmp_path, changed(place + 1, lines[place + 1].replace(b"hello", b"hullo")))
    assert f"line {place + 1}: the payload of position 1 is not the one recorded: altered" in said
    said = refused(tmp_path, changed(place + 1, b""))
    assert "the payload of position 1 is missing" in said
    said = refused(tmp_path, changed(records[-1], b""))
    whole = len(records)
    assert f"there are {whole - 1:,} records, but the last line says {whole:,}" in said
    said = refused(tmp_path, changed(records[700], lines[records[700]] * 2))
    assert f"line {records[700] + 2}: the record at position 702 says that it belongs at 701" in said
    said = refused(tmp_path, changed(place + 1, lines[place + 1] * 2))
    assert f"line {place + 3}: a content of position 1 is not where it belongs" in said
    said = refused(tmp_path, changed(5, b"nonsense\n"))
    assert "line 6" in said


def test_the_first_and_the_last_line_are_held_against_the_rest(exported, tmp_path):
    """The head that the export begins with, the one it ends with, and roots over blocks."""
    lines = exported.splitlines(keepends=True)
    block = next(place for place, line in enumerate(lines) if line.startswith(b'{"block"'))
    for place, word in ((0, "first line's head"), (block, "the root of the block from position 1 on"), (-1, "root")):
        line = orjson.loads(lines[place])
        of_line = next(iter(line.values()))
        of_line.get("head", of_line)["root"] = base64_of(bytes(32))
        changed = [*lines]
        changed[place] = orjson.dumps(line) + b"\n"
        assert word in refused(tmp_path, b"".join(changed))
    assert "is missing" in refused(tmp_path, b"".join(lines[:block] + lines[block + 1 :]))
    time = lines[-1].replace(b'"time":1', b'"time":2')
    assert "the time in the last line" in refused(tmp_path, b"".join([*lines[:-1], time]))
    assert "goes on after its end" in refused(tmp_path, exported + lines[-1])


def test_one_that_was_cut_off_is_refused(exported, tmp_path):
    """Wherever it was cut: between lines, within one, before the last line end."""
    chance = random.Random(7)
    cuts = [
        1,
        exported.index(b"\n") + 1,
        exported.index(b"\n", 50_000) + 1,
        len(exported) - 1,
        *(chance.randrange(len(exported)) for _ in range(6)),
    ]
    for cut in cuts:
        assert refused(tmp_path, exported[:cut], exits.USAGE if cut == 1 else exits.REFUSED)


def test_the_place_of_a_cut_is_the_first_bad_record(exported, file):
    """Not the records whose contents were erased later on: what says so may be among what is lost."""
    chance, size = random.Random(13), size_of(file)
    for cut in (*(chance.randrange(2_000, len(exported)) for _ in range(6)), exported.index(b'{"end"')):
        file.write_bytes(exported[:cut])
        left = sum(line.startswith(b'{"position"') and line.endswith(b"\n") for line in exported[:cut].splitlines(True))
        report = verified(file)
        assert [check.name for check in report.checks if check.faults] == ["records"]
        assert report.first_bad == (left + 1 if left < size else None)
        if left < size:
            assert f"{size - left:,} of the {size:,} records that the first line speaks of are lost" in str(report)
            assert f"Before position {left + 1:,} every record passes every check that was made." in report.said
        else:
            told = f"The first {size:,} records are, byte for byte, those that the head in the first line stands for."
            assert report.said == [told]


def test_an_end_whose_log_was_cut_out_before_it(exported, file):
    """The last line knows how many there were: the first one that is missing is named."""
    lines, size = exported.splitlines(True), size_of(file)
    places = [place for place, line in enumerate(lines) if line.startswith(b'{"position"')]
    file.write_bytes(b"".join([*lines[: places[-5]], lines[-1]]))
    report = verified(file)
    assert report.first_bad == size - 4
    assert [check.name for check in report.checks if check.faults] == ["tree"]


def test_any_bit_that_turned_is_found(exported, tmp_path):
    """In whatever line after the first, which has a test of its own: the export is refused as a whole."""
    chance = random.Random(11)
    for _ in range(25):
        turned = bytearray(exported)
        turned[chance.randrange(exported.index(b"\n"), len(turned))] ^= 1 << chance.randrange(8)
        assert refused(tmp_path, bytes(turned))


def test_what_is_no_export_or_a_newer_one_is_refused(exported, tmp_path):
    """With a clear word; nothing is made."""
    for content in (b"", b"\n", b"{}\n", b'{"export":{}}\n', b"\x00\xff" * 5_000, b'{"export":' + b"x" * 100):
        assert "export" in refused(tmp_path, content, exits.USAGE) or content
    newer = exported.replace(b'"version":1,"origin"', b'"version":2,"new":true,"origin"', 1)
    said = refused(tmp_path, newer, exits.USAGE)
    assert "form 2, this eventjobs knows up to 1; use a newer one" in said
    assert "form 2" in run("verify", tmp_path / "bad.jsonl", code=exits.USAGE).output


def test_an_event_of_a_newer_form_is_not_taken_in(exported, tmp_path):
    """That is no damage, but nothing that this program could answer for."""
    newer = exported.replace(b'"type":"job_leased","format_version":1', b'"type":"job_leased","format_version":9', 1)
    assert "job_leased of format 9" in refused(tmp_path, newer)


def test_nothing_is_written_over(data, file, tmp_path):
    """Neither a file nor a directory that has something in it."""
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    assert "not empty" in run("import", file, "--data", data, code=exits.USAGE).output
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    assert "there already" in run("export", "--data", data, "--out", file, code=exits.USAGE).output
    (tmp_path / "empty").mkdir()
    run("import", file, "--data", tmp_path / "empty")


def test_what_is_not_there_is_told(tmp_path):
    """A store or a file that is missing: could not, and nothing made."""
    assert "does not exist" in run("export", "--data", tmp_path / "no", "--out", tmp_path / "x", code=2).output
    assert "cannot be read" in run("import", tmp_path / "no", "--data", tmp_path / "x", code=2).output
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_store_is_not_exported(data, tmp_path):
    """It says what is wrong, and leaves no file."""
    content = bytearray((data / "data.mdb").read_bytes())
    at = content.index(b'"job_enqueued"')
    content[at + 2] ^= 1
    (data / "data.mdb").write_bytes(content)
    assert "checksum" in run("export", "--data", data, "--out", tmp_path / "x", code=exits.REFUSED).output
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_a_full_disk_leaves_nothing(data, file, tmp_path):
    """A file that cannot grow, and a standard output that takes nothing: could not, and nothing left behind."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    for arguments in (
        ("export", "--data", data, "--out", tmp_path / "x"),
        ("import", file, "--data", tmp_path / "made"),
    ):
        done = subprocess.run(command(*arguments), preexec_fn=bounded, capture_output=True, text=True)
        assert done.returncode == exits.USAGE, done.stderr
        assert done.stderr.startswith("eventjobs: ") and done.stderr.count("\n") == 1
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command("export", "--data", data), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "standard output cannot be written" in done.stderr) == (exits.USAGE, True)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "log.jsonl"}


def test_a_target_without_room_is_not_taken_for_a_fault_of_the_export(exported, tmp_path, monkeypatch):
    """One line says what is full, after however many records; nothing is left."""
    taken = []

    def take(store: NewStore, entries: list) -> None:
        taken.append(entries)
        raise StorageFull("the disk of the store is full")

    monkeypatch.setattr(importing, "CHUNK_RECORDS", 300)
    monkeypatch.setattr(NewStore, "take", take)
    assert refused(tmp_path, exported, exits.USAGE) == "eventjobs: the disk of the store is full\n"
    assert len(taken) == 1


def test_a_killed_import_is_not_there_and_the_next_one_cleans_up(exported, file, tmp_path):
    """A half of an export comes in, then the process is killed; another import begins from nothing."""
    made = tmp_path / "made"
    process = subprocess.Popen(command("import", "-", "--data", made), stdin=subprocess.PIPE)
    process.stdin.write(exported[: len(exported) // 2])
    process.stdin.flush()
    wait_for(lambda: (made / WORK / "data.mdb").exists(), "the import to begin")
    assert "another process" in run("import", file, "--data", made, code=exits.USAGE).output
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    assert {path.name for path in made.iterdir()} == {WORK, "coordinator.lock"}
    run("import", file, "--data", made)
    assert {path.name for path in made.iterdir()} == {"data.mdb", "coordinator.lock"}
    assert {path.name for path in tmp_path.iterdir()} == {"log.jsonl", "made"}
    run("verify", made)


def test_no_more_contents_are_held_than_a_part_may_have(exported, data, tmp_path, monkeypatch):
    """A block comes in parts, each ended by the content that reaches the bound; what is made of them is the same, and
    a root that is wrong is found in the block that it is of."""
    monkeypatch.setattr(walking, "PART_BYTES", 200)
    lines = exported.splitlines(keepends=True)
    check = walking.LineCheck("records")
    parts = list(walking.ExportWalk(io.BytesIO(exported), check).blocks())
    assert len(parts) > size_of_text(exported) // 50 and not check.faults
    for part in parts:
        assert sum(len(each.content.text) for each in part.entries[:-1] if each.content is not None) < 200
    (tmp_path / "log.jsonl").write_bytes(exported)
    run("import", tmp_path / "log.jsonl", "--data", tmp_path / "made")
    assert run("export", "--data", tmp_path / "made").stdout_bytes == exported
    block = next(place for place, line in enumerate(lines) if line.startswith(b'{"block":{"last":512,'))
    altered = b'{"block":{"last":512,"root":"' + b"A" * 43 + b'="}}\n'
    said = refused(tmp_path, b"".join([*lines[:block], altered, *lines[block + 1 :]]))
    assert "the root of the block from position 257 on" in said


def test_an_archived_store_is_exported_as_any_other(data, exported, tmp_path):
    """Records that have left the live store for the archive are in the export, at their places."""
    (data / "archive").mkdir()
    save_manifest(data / "archive", Manifest(8))
    engine = open_engine(data, READ_MODELS, force_filesystem=True)
    while engine.seal(2**62, lambda: None) or engine.empty():
        pass
    assert engine.archive.end >= 512
    engine.close()
    assert run("export", "--data", data).stdout_bytes == exported
