"""A ledger for the read models: records go in, rows come out of plain dictionaries, sorted when they are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.events import Event, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Table, Value
from eventjobs.projections import READ_MODELS

ACTOR = Actor(ActorType.OPERATOR, "test")


class DictRows:
    """Rows over one dictionary a table. Counts how many rows were handed out."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Key, Value]] = {}
        self.handed_out = 0

    def row(self, table: Table, key: Key) -> Value | None:
        return self.tables.get(table.name, {}).get(key)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        content = self.tables.get(table.name, {})
        for key in sorted(content, reverse=reverse):
            if key[: len(prefix)] != prefix:
                continue
            if beyond is None or (key < beyond if reverse else key > beyond):
                self.handed_out += 1
                yield key, content[key]

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        seen = set()
        for key, value in self.rows(table, prefix):
            if key[:names] not in seen:
                seen.add(key[:names])
                yield key, value
            else:
                self.handed_out -= 1  # an engine seeks over it

    def apply(self, table: Table, key: Key, value: Value | None) -> None:
        content = self.tables.setdefault(table.name, {})
        assert len(key) == len(table.key)
        if table.counters:
            content[key] = content.get(key, 0) + value
        elif value is None:
            del content[key]
        else:
            content[key] = value


class Ledger:
    """A log of many jobs, folded into every read model."""

    def __init__(self) -> None:
        self.rows = DictRows()
        self.jobs: dict[str, Job] = {}
        self.size = 0

    def record(self, job_id: str, *events: Event, time: int) -> Job:
        """Append the events to the job's history, all at one time."""
        for event in events:
            self.size += 1
            before = self.jobs.get(job_id)
            version = 1 if before is None else before.version + 1
            record = Record(self.size, job_id, version, time, ACTOR, event)
            after = self.jobs[job_id] = evolve(before, record)
            for model in READ_MODELS:
                for table, key, value in model.project(self.rows, before, record, after):
                    assert table in model.tables
                    self.rows.apply(table, key, value)
        return after


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
