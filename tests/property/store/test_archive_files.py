"""Archive files: whatever records go in come out, and nothing that happened to a file goes unseen."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.store.archive import Archive, layout
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.archive.segment import Segment, write_segment
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.keys import uuid_text
from eventjobs.store.merkle import complete_root, leaf_hash

JOBS = [uuid_text(bytes([number]) * 16) for number in range(5)]
RECORDS = 256

extras = st.lists(st.text(max_size=20), min_size=1, max_size=8)


def texts_of(first: int, words: list[str]) -> list[bytes]:
    """256 records of five jobs."""
    return [
        msgspec.json.encode(
            {"position": position, "job_id": JOBS[position * position % 5], "time": position // 7, "data": word}
        )
        for position, word in enumerate((words * RECORDS)[:RECORDS], first)
    ]


def sealed(directory: Path, texts: list[bytes]) -> Archive:
    """An archive with one more segment of 256 records."""
    if not (directory / "manifest.json").exists():
        directory.mkdir()
        save_manifest(directory, Manifest(8))
    archive = Archive(directory)
    archive.add(iter([texts]), complete_root([leaf_hash(text) for text in texts]), lambda: None)
    return archive


@given(extras, extras)
def test_what_goes_in_comes_out(tmp_path_factory, first, second):
    """Every record, byte for byte, from any position on; and the positions of every job."""
    directory = tmp_path_factory.mktemp("archive") / "archive"
    texts = texts_of(1, first)
    sealed(directory, texts)
    texts += texts_of(257, second)
    sealed(directory, texts[RECORDS:])
    archive = Archive(directory)
    archive.check_files()
    for after, limit in ((0, 512), (0, 1), (255, 2), (300, 100), (511, 9), (512, 3)):
        assert archive.texts(after, limit) == texts[after : after + limit]
    for index in range(2):
        assert [text for part in archive.segment(index).check() for text in part] == texts[256 * index :][:256]
    for place, job_id in enumerate(JOBS):
        expected = [position for position in range(1, 513) if position * position % 5 == place]
        assert list(archive.positions_of(job_id)) == expected


def test_a_job_with_many_records_has_all_its_places(tmp_path):
    """Its places may fill more than one part of the index."""
    path = tmp_path / "a.log"
    texts = [msgspec.json.encode({"position": p, "job_id": JOBS[2 + (p > 3000)], "time": 0}) for p in range(1, 4097)]
    write_segment(path, 1, (texts[begin : begin + 256] for begin in range(0, 4096, 256)))
    segment = Segment(path)
    assert segment.positions_of(JOBS[2]) == list(range(1, 3001))
    assert segment.positions_of(JOBS[3]) == list(range(3001, 4097))
    assert segment.positions_of(JOBS[1]) == segment.positions_of(JOBS[4]) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("small") / "archive"
    sealed(directory, texts_of(1, ["a word"]))
    return directory


def answers(directory: Path) -> tuple[object, ...]:
    """All that an archive says."""
    archive = Archive(directory)
    archive.check_files()
    texts = archive.texts(0, 256)
    return texts, [list(archive.positions_of(job_id)) for job_id in JOBS], archive.end


def checked(directory: Path) -> None:
    """The whole check of the file alone."""
    for _ in Segment(directory / "000000000001-000000000256.log").check():
        pass


@given(st.data())
def test_no_turned_bit_of_a_file_goes_unseen(small, tmp_path_factory, data):
    """What is read from the file is what it was, or Corrupt; and a check of the file by itself finds it."""
    directory = tmp_path_factory.mktemp("turned") / "archive"
    directory.mkdir()
    manifest = (small / "manifest.json").read_bytes()
    (directory / "manifest.json").write_bytes(manifest)
    name = "000000000001-000000000256.log"
    content = bytearray((small / name).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (directory / name).write_bytes(content)
    with pytest.raises(StoreError):
        checked(directory)
    try:
        assert answers(directory) == answers(small)
    except StoreError as error:
        assert name in str(error)  # noqa: PT017 - either is right


@given(st.data())
def test_no_turned_bit_of_the_manifest_changes_an_answer(small, tmp_path_factory, data):
    """It is what it was, or Corrupt; or there is nothing in the archive, which the store knows better."""
    directory = tmp_path_factory.mktemp("turned") / "archive"
    directory.mkdir()
    for file in small.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    content = bytearray((small / "manifest.json").read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (directory / "manifest.json").write_bytes(content)
    try:
        assert answers(directory) == answers(small)
    except StoreError as error:
        assert str(directory) in str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize("harm", ["cut", "longer", "empty", "foreign", "missing", "another"])
def test_other_damage_is_named(small, tmp_path, harm):
    """Whatever is wrong with the file, it is named."""
    directory = tmp_path / "archive"
    sealed(directory, texts_of(1, ["a word"]))
    path = directory / "000000000001-000000000256.log"
    whole = path.read_bytes()
    other = tmp_path / "other"
    sealed(other, texts_of(1, ["another"]))
    path.write_bytes(
        {
            "cut": whole[:-1],
            "longer": whole + b"\0",
            "empty": b"",
            "foreign": b"#!/bin/sh\n" * 100,
            "another": (other / path.name).read_bytes(),
        }.get(harm, b"")
    )
    if harm == "missing":
        path.unlink()
    with pytest.raises(Corrupt, match=path.name):
        answers(directory)


def test_records_that_are_not_the_trees_are_not_sealed(tmp_path):
    """Nothing is left behind."""
    directory = tmp_path / "archive"
    sealed(directory, texts_of(1, ["a"]))
    before = sorted(directory.iterdir())
    with pytest.raises(Corrupt, match="not those of the tree"):
        Archive(directory).add(iter([texts_of(257, ["b"])]), bytes(32), lambda: None)
    assert sorted(directory.iterdir()) == before
    assert Archive(directory).end == 256


def test_a_wrong_job_index_is_found(tmp_path, monkeypatch):
    """Although its checksums are right."""
    path = tmp_path / "a.log"
    right = layout.places
    with monkeypatch.context() as patch:
        patch.setattr(layout, "places", lambda job_ids: right([*job_ids[1:], job_ids[0]]))
        write_segment(path, 1, iter([texts_of(1, ["a"])]))
    with pytest.raises(Corrupt, match="its job index is not that of its records"):
        list(Segment(path).check())


def test_newer_ones_are_refused(small, tmp_path, monkeypatch):
    """A file and a manifest of a later version are refused as that, not as damage."""
    directory = tmp_path / "archive"
    with monkeypatch.context() as patch:
        patch.setattr("eventjobs.store.archive.layout.FORMAT_VERSION", 2)
        sealed(directory, texts_of(1, ["a"]))
    with pytest.raises(StoreError, match=r"256.log: it has format 2, .* knows up to 1; use a newer one"):
        answers(directory)
    text = (directory / "manifest.json").read_text()
    (directory / "manifest.json").write_text(text.replace('"format":1', '"format":3,"more":[]'))
    with pytest.raises(StoreError, match=r"manifest.json: it has format 3, .* use a newer one"):
        Archive(directory)
