"""An export, and a verification of a database, is that of one moment: what is erased meanwhile does no harm to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.store.lmdb.snapshot import NoStore, standing_still
from eventjobs.testing.processes import CoordinatorProcess
from eventjobs.tools import source as module

JOBS, STRETCH = 30, 7


def run(*arguments: object) -> str:
    """What a command prints; it must be content."""
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code == exits.DONE, f"{done.output} {done.exception!r}"
    return done.output


def erasing(coordinator: CoordinatorProcess) -> Callable[[], None]:
    """Makes jobs that have ended, and gives what erases them all, and makes as many others."""
    jobs = [coordinator.ask("/jobs", {"kind": "k", "payload": f"secret {number}"})[1]["id"] for number in range(JOBS)]
    run("cancel", *jobs, "--url", coordinator.url)

    def erase() -> None:
        run("erase", *jobs, "--yes", "--url", coordinator.url)
        for number in range(JOBS):
            coordinator.ask("/jobs", {"kind": "k", "payload": f"later {number}"})

    return erase


def between_stretches(monkeypatch: pytest.MonkeyPatch, source: type, act: Callable[[], None]) -> list[int]:
    """Has something done once, after the first stretch of contents that a source reads. Gives where each began."""
    begun: list[int] = []
    read = source._stretch

    def stretch(self: module.StretchedSource, after: int, contents: bool) -> list[module.Entry]:
        found = read(self, after, contents)
        begun.append(after)
        if len(begun) == 1:
            act()
        return found

    monkeypatch.setattr(module, "STRETCH_RECORDS", STRETCH)
    monkeypatch.setattr(source, "_stretch", stretch)
    return begun


def exported_and_verified(place: tuple[object, ...], file: Path) -> str:
    run("export", *place, "--out", file)
    run("verify", file)
    return file.read_text()


def test_an_export_of_a_store(coordinator, tmp_path, monkeypatch):
    """All texts are there, and no record that erases them; the next one has the records, and none of the texts."""
    begun = between_stretches(monkeypatch, module.StoreSource, erasing(coordinator))
    place = ("--data", coordinator.data)
    text = exported_and_verified(place, tmp_path / "first")
    assert len(begun) > 2
    assert (text.count("secret"), text.count("contents_erased"), text.count("later")) == (JOBS, 0, 0)
    text = exported_and_verified(place, tmp_path / "second")
    assert (text.count("secret"), text.count("contents_erased"), text.count("later")) == (0, JOBS, JOBS)


def test_a_database(tmp_path, postgres_url, monkeypatch):
    """The same of an export; and a verification finds such a store sound."""
    with CoordinatorProcess(tmp_path, store=postgres_url) as coordinator:
        for what in ("export", "verify"):
            with monkeypatch.context() as patches:
                before = run("head", "--url", coordinator.url)
                begun = between_stretches(patches, module.DatabaseSource, erasing(coordinator))
                if what == "export":
                    text = exported_and_verified(("--store", postgres_url), tmp_path / "file")
                    assert (text.count("secret"), text.count("contents_erased")) == (JOBS, 0)
                else:
                    assert "\nsound" in run("verify", postgres_url)
                assert len(begun) > 2
                assert run("head", "--url", coordinator.url) != before
        text = exported_and_verified(("--store", postgres_url), tmp_path / "last")
        assert (text.count("secret"), text.count("contents_erased")) == (0, 2 * JOBS)


def test_a_store_that_was_opened_meanwhile(coordinator, tmp_path):
    """Who reads without locks and is written under is told to do it again, whatever else was found wrong."""
    coordinator.stop()
    said = "was written to while it was read; do it again"
    with pytest.raises(NoStore, match=said), standing_still(coordinator.data):
        coordinator.restart()
        coordinator.ask("/jobs", {"kind": "k"})
        raise module.Corrupt("torn")
