"""What the properties of indexes share: a log of jobs, folded into one projection kept in a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.events import Event, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Projection, Table, Value

ACTOR = Actor(ActorType.OPERATOR, "test")


class Fold:
    """Records go in; the projection's rows come out, sorted when they are read. Counts the rows handed out."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self.tables: dict[Table, dict[Key, Value]] = {table: {} for table in projection.tables}
        self.jobs: dict[str, Job] = {}
        self.size = self.handed_out = 0

    def record(self, job_id: str, event: Event, time: int) -> Job:
        self.size += 1
        before = self.jobs.get(job_id)
        record = Record(self.size, job_id, 1 if before is None else before.version + 1, time, ACTOR, event)
        after = self.jobs[job_id] = evolve(before, record)
        for table, key, value in self.projection.project(self, before, record, after):
            if value is None:
                del self.tables[table][key]  # a row that is not there would be a KeyError
            else:
                self.tables[table][key] = value
        return after

    def row(self, table: Table, key: Key) -> Value | None:
        return self.tables[table].get(key)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        content = self.tables[table]
        for key in sorted(content, reverse=reverse):
            if key[: len(prefix)] == prefix and (beyond is None or (key < beyond if reverse else key > beyond)):
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


@pytest.fixture(scope="session")
def fold() -> Callable[[Projection], Fold]:
    """Makes an empty fold of a projection."""
    return Fold
