"""What an earlier version wrote is opened, verified, folded, exported and imported for ever, with the same answers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from eventjobs.cli.main import cli
from eventjobs.domain.commands import ActorType
from eventjobs.domain.events import EVENT_TYPES, ContentsErased, JobRetired, erased_positions
from eventjobs.domain.job import State
from eventjobs.projections import READ_MODELS
from eventjobs.store.checkpoint import parse_checkpoint
from eventjobs.store.contract import Engine
from eventjobs.store.ingest import ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.answers import answers
from eventjobs.tools import check_proof
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer.export import export
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify

MAP_SIZE = 64 << 20
EVENTS_OF_1 = {
    *("job_enqueued", "job_leased", "lease_renewed", "lease_released", "lease_expired", "job_completed"),
    *("attempt_failed", "job_died", "job_canceled", "job_requeued"),
}
EVENTS = {"1": EVENTS_OF_1, "2": EVENTS_OF_1 | {"contents_erased", "job_retired", "idempotency_key_forgotten"}}
"""By folder."""


def run(*arguments: object) -> bytes:
    """What a command says; it must succeed."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return done.stdout_bytes


def the_same(said: Any, expected: Any) -> bool:
    """Whether all that is expected is said; an object may have members that came later."""
    if isinstance(expected, dict):
        return isinstance(said, dict) and all(
            name in said and the_same(said[name], expected[name]) for name in expected
        )
    return said == expected


def assert_answers(engine: Engine, expected: dict[str, Any]) -> None:
    """The jobs are those, no fewer and no more, and each says what it said; the head is that of then."""
    said = answers(engine)
    assert said["jobs"].keys() == expected["jobs"].keys()
    assert [each for each in expected["jobs"] if not the_same(said["jobs"][each], expected["jobs"][each])] == []
    assert the_same(said["stats"], expected["stats"])


def test_it_has_everything_that_there_was(golden):
    """Each event, each state a job can be in, and each type of actor; more than a block of records."""
    with open_source(golden.data) as source:
        records = list(source.records())
    assert {record.event.type for record in records} == EVENTS[golden.name]
    assert {record.actor.type for record in records} == set(ActorType)
    assert {job["state"] for job in golden.answers["jobs"].values()} == set(State)
    assert len(records) > 256


def test_it_is_opened_and_answers_as_it_did(golden):
    """By the coordinator's engine, which may make its tables anew."""
    engine = open_engine(golden.data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    assert_answers(engine, golden.answers)
    engine.close()


def test_it_is_verified_against_its_signed_head(golden):
    """Nothing is damaged, before a coordinator of this version opened it and after."""
    kept = parse_checkpoint(golden.head.read_bytes()).head
    before = verify(golden.data, kept, False, lambda what, done, total: None)
    assert before.outcome is not Outcome.DAMAGED
    open_engine(golden.data, READ_MODELS, MAP_SIZE, force_filesystem=True).close()
    after = verify(golden.data, kept, False, lambda what, done, total: None)
    assert after.outcome is Outcome.SOUND
    run("verify", golden.export, "--from-head", golden.head, "--public-key", golden.public_key)


def test_it_is_folded_to_what_it_was(golden):
    """From its texts alone, by another engine: the same positions, root, jobs and statistics."""
    engine = MemoryEngine(READ_MODELS)
    with open_source(golden.data) as source:
        head = ingest(engine, source.entries())
        assert (head.size, head.root) == (source.head().size, source.head().root)
    assert base64.b64encode(head.root).decode() == golden.answers["stats"]["head"]["root"]
    assert_answers(engine, golden.answers)


def test_it_is_exported_as_it_was(golden, tmp_path):
    """To the same bytes, as long as the form of exports has the version it had; with the same log in any case."""
    before = golden.export.read_bytes()
    origin = orjson.loads(before.splitlines()[0])["export"]["origin"]
    with open_source(golden.data) as source, (tmp_path / "export").open("wb") as stream:
        export(source, origin, stream, lambda what, done, total: None)
    assert (tmp_path / "export").read_bytes() == before


def test_its_export_is_imported(golden, tmp_path):
    """A store is made of it that answers the same."""
    run("import", golden.export, "--data", tmp_path / "made")
    engine = open_engine(tmp_path / "made", READ_MODELS, MAP_SIZE, force_filesystem=True)
    assert_answers(engine, golden.answers)
    engine.close()


def test_the_newest_has_every_event_that_there_is():
    """Whoever adds an event adds a folder."""
    assert EVENTS[max(EVENTS, key=int)] == set(EVENT_TYPES)


def test_what_was_erased_is_in_no_export(golden):
    """Neither the contents that an event erased, nor those of jobs that are retired; all others are."""
    lines = [orjson.loads(line) for line in golden.export.read_bytes().splitlines()]
    written = {line["content"]["position"] for line in lines if "content" in line}
    with open_source(golden.data) as source:
        records = list(source.records())
    erasing = [record.event for record in records if isinstance(record.event, ContentsErased | JobRetired)]
    erased = {place for event in erasing for place in erased_positions(event)}
    had = {record.position for record in records if any(
        getattr(record.event, name, None) is not None for name in ("payload", "result", "error")
    )}  # fmt: skip
    assert written == had - erased
    assert bool(erased) is ("contents_erased" in EVENTS[golden.name])


@pytest.mark.parametrize("position", [1, 256, 257])
def test_its_records_are_proved(golden, tmp_path, position):
    """By a proof that the stand-alone checker accepts against the head of then."""
    (tmp_path / "proof").write_bytes(run("prove", position, "--data", golden.data))
    assert check_proof.main([str(tmp_path / "proof"), str(golden.head)]) == 0


def test_the_folders_say_what_they_are():
    """Every folder stands in the README."""
    readme = (Path(__file__).parent / "README.md").read_text()
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/answers.json"))
    assert folders and [name for name in folders if f"| `{name}` |" not in readme] == []
