"""A backup of a store whose oldest records are in an archive is whole by itself."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.snapshot import open_snapshot
from eventjobs.testing import builders as b
from eventjobs.testing.processes import CoordinatorProcess
from eventjobs.tools.source import open_source

MAP_SIZE = 64 << 20
SEGMENT_LEVEL = 8


@pytest.fixture
def sealed(data):
    """The directory of a store with a past, most of it in the archive, and the texts of all its records."""
    (data / "archive").mkdir()
    save_manifest(data / "archive", Manifest(SEGMENT_LEVEL))
    engine = open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    with engine.read() as reader:
        texts = [reader.record_text(place) for place in range(1, reader.head().size + 1)]
    while engine.seal(b.at(10**9), lambda: None):
        pass
    while engine.empty():
        pass
    engine.close()
    return data, texts


def run(*arguments: object):
    return CliRunner().invoke(cli, list(map(str, arguments)))


def refused(*arguments: object) -> str:
    """What a command says that is refused, with exit code 1."""
    done = run(*arguments)
    assert isinstance(done.exception, exits.Refused | SystemExit) and done.exit_code == 1, done
    return f"{done.exception}{done.output}"


def test_a_backup_has_the_records_of_the_archive(sealed, tmp_path):
    """Every text is in the file, which needs no archive; what is restored of it, up to a point too, is sound."""
    data, texts = sealed
    with open_snapshot(data) as snapshot:
        assert snapshot.archived > 0
    assert run("backup", tmp_path / "b.mdb", "--data", data).exit_code == 0
    with open_snapshot(tmp_path / "b.mdb") as snapshot:
        assert snapshot.archived == 0
    assert run("restore", tmp_path / "b.mdb", "--data", tmp_path / "whole").exit_code == 0
    assert run("restore", tmp_path / "b.mdb", "--data", tmp_path / "part", "--until", 100).exit_code == 0
    for directory, wanted in (("whole", texts), ("part", texts[:100])):
        with open_source(tmp_path / directory) as source:
            assert [text for _, text in source.texts()] == wanted


def test_a_coordinator_sends_the_records_of_its_archive_too(sealed, tmp_path):
    """Over HTTP the file is as whole as from the directory, and nothing lies in the store's directory afterwards."""
    data, texts = sealed
    with CoordinatorProcess(tmp_path) as coordinator:
        there = set(os.listdir(data))
        done = run("backup", tmp_path / "b.mdb", "--url", coordinator.url)
        assert done.exit_code == 0, done.output
        assert set(os.listdir(data)) == there
    with open_snapshot(tmp_path / "b.mdb") as snapshot:
        assert snapshot.archived == 0
    with open_source(tmp_path / "b.mdb") as source:
        assert [text for _, text in source.texts()][: len(texts)] == texts


def test_a_directory_with_an_archive_is_restored_whole(sealed, tmp_path):
    """What is made of it needs no archive; where a file of the archive is damaged or gone, it is refused."""
    data, texts = sealed
    assert run("restore", data, "--data", tmp_path / "whole").exit_code == 0
    assert not (tmp_path / "whole" / "archive").exists()
    with open_source(tmp_path / "whole") as source:
        assert [text for _, text in source.texts()] == texts
    file = min(data.glob("archive/*.log"))
    whole = file.read_bytes()
    file.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    assert "is damaged" in refused("restore", data, "--data", tmp_path / "damaged")
    file.unlink()
    assert "is damaged" in refused("restore", data, "--data", tmp_path / "damaged")
    assert not (tmp_path / "damaged").exists()
