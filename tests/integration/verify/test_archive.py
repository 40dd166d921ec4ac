"""What verify finds in the archive of a store, and in an archive file that it is given alone."""

from __future__ import annotations

import hashlib
import shutil

import attrs
import pytest

from eventjobs.store.archive.layout import FOOTER_BYTES, Footer
from eventjobs.store.archive.manifest import Manifest, load_manifest, save_manifest
from eventjobs.store.contract import StoreError
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify


def move(store) -> None:
    """Everything that can be, to an archive with segments of 256 records."""
    archive = store.directory / "archive"
    archive.mkdir(exist_ok=True)
    if not (archive / "manifest.json").exists():
        save_manifest(archive, Manifest(8))
    with store.engine() as engine:
        while engine.seal(2**62, lambda: None):
            pass
        while engine.empty():
            pass


@pytest.fixture
def archived(store):
    """A sound store with most of its records in the archive."""
    move(store)
    return store


def check(store, quick: bool = False, path=None):
    return verify(path or store.directory, None, quick, lambda *_: None)


def outcomes(report) -> dict[str, str]:
    return {each.name: str(each.outcome) for each in report.checks if each.outcome is not Outcome.SOUND}


def files(store) -> list:
    return sorted((store.directory / "archive").glob("*.log"))


@pytest.mark.parametrize("quick", [False, True])
def test_a_sound_one(archived, quick):
    """Live records and archive are one log, of which the head, and one that was kept, stand."""
    head = archived.head()
    report = verify(archived.directory, head, quick, lambda *_: None)
    assert report.outcome is Outcome.SOUND, report
    found = {each.name: each.facts for each in report.checks}
    assert found["archive"] == f"{len(files(archived))} files with {len(files(archived)) * 256:,} records"
    assert found["records"].startswith(f"the checksums of {head.size:,} records match")


def test_a_store_without_an_archive_has_no_such_check(store):
    """It is as it was."""
    assert "archive" not in [each.name for each in check(store).checks]


@pytest.mark.parametrize("quick", [False, True])
def test_a_turned_bit(archived, quick):
    """The file is named, and the 256 records; all others are shown to be what they were."""
    path = files(archived)[1]
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    report = check(archived, quick)
    assert report.outcome is Outcome.DAMAGED and report.first_bad == 257
    assert path.name in str(report.document())
    size = archived.head().size
    assert f"{size - 256:,} of {size:,} records" in str(report.document())


@pytest.mark.parametrize("harm", ["missing", "manifest", "foreign", "cut"])
def test_other_harm(archived, harm):
    """It is damage, and named; what is in the store itself is looked at all the same."""
    path = files(archived)[0]
    if harm == "missing":
        path.unlink()
    elif harm == "manifest":
        path = path.with_name("manifest.json")
        path.unlink()
    elif harm == "foreign":
        path.write_bytes(b"#!/bin/sh\n" * 1_000)
    else:
        path.write_bytes(path.read_bytes()[:-1])
    report = check(archived)
    assert report.outcome is Outcome.DAMAGED and report.first_bad == 1
    assert path.name in next(each for each in report.checks if each.name == "archive").faults[0].text
    assert "archive" in outcomes(report) and "records" in outcomes(report)


def test_a_wrong_hash_in_the_manifest(archived):
    """Only the whole check hashes the files."""
    path = archived.directory / "archive" / "manifest.json"
    text = path.read_text()
    place = text.index('"sha256":"') + 12
    path.write_text(text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :])
    assert outcomes(check(archived)) == {"archive": "damaged"}
    assert not outcomes(check(archived, quick=True))


def test_a_file_with_another_past(archived, new_store):
    """Sound by itself, with a manifest that fits: it is not what the tree was made of."""
    other = new_store(subject="another")
    move(other)
    shutil.rmtree(archived.directory / "archive")
    shutil.copytree(other.directory / "archive", archived.directory / "archive")
    report = check(archived, quick=True)
    assert {"archive", "tree"} <= set(outcomes(report))
    assert "has other records than the tree was made of" in str(report.document())


def test_times_that_are_not_those_of_the_records(archived):
    """With the footer's checksum and the manifest put right: the records say when they are from."""
    path = files(archived)[0]
    content, directory = path.read_bytes(), path.parent
    footer = Footer.decode(content[-FOOTER_BYTES:])
    manifest = load_manifest(directory)
    for name in ("first_time", "last_time"):
        altered = attrs.evolve(footer, **{name: getattr(footer, name) - 1})
        path.write_bytes(content[:-FOOTER_BYTES] + altered.encode())
        entry = attrs.evolve(
            manifest.entries[0],
            sha256=hashlib.sha256(path.read_bytes()).digest(),
            **{name: getattr(footer, name) - 1},
        )
        save_manifest(directory, attrs.evolve(manifest, entries=(entry, *manifest.entries[1:])))
        report = check(archived)
        assert outcomes(report) == {"archive": "damaged"}
        assert "its footer is not that of its records" in str(report.document())


def test_a_newer_archive_is_not_looked_at(archived):
    """It is no damage."""
    path = archived.directory / "archive" / "manifest.json"
    path.write_text(path.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(StoreError, match="use a newer one"):
        check(archived)


def test_what_the_manifest_does_not_name_is_told(archived):
    """And no damage."""
    (archived.directory / "archive" / "notes").write_text("mine")
    report = check(archived)
    assert report.outcome is Outcome.SOUND
    assert "does not name it: notes" in report.said[-1]


def test_one_file_alone(archived, tmp_path):
    """Without its store; every turned bit of it is found."""
    path = shutil.copy(files(archived)[1], tmp_path / files(archived)[1].name)
    report = check(archived, path=path)
    assert (report.outcome, report.size) == (Outcome.SOUND, 256)
    assert report.checks[0].facts.startswith("positions 257 to 512;")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert outcomes(check(archived, path=path)) == {"archive file": "damaged"}
    with pytest.raises(NoStore, match="part of a log"):
        verify(path, archived.head(), False, lambda *_: None)
    with pytest.raises(NoStore, match="does not exist"):
        check(archived, path=tmp_path / "000000000001-000000000256.log")
