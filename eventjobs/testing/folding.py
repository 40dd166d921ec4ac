"""Folding a log: what its records alone make of jobs and of projection tables, to be held against what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eventjobs.domain.events import Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Projection, Rows, Table, Value


class Fold:
    """Takes records in order. `jobs` are those so far by id; the rows of a projection's table are read as a store's."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._projections = tuple(projections)
        self._tables: dict[Table, dict[Key, Value]] = {table: {} for each in projections for table in each.tables}
        self.jobs: dict[str, Job] = {}
        self.size = 0

    @property
    def tables(self) -> Iterable[Table]:
        """The tables of all its projections."""
        return self._tables

    @property
    def shown(self) -> dict[str, Job | None]:
        """What a store must say of each job: None of those that are retired."""
        return {job_id: None if job.retired else job for job_id, job in self.jobs.items()}

    def take(self, records: Iterable[Record]) -> None:
        """Fold in what comes next. Raises KeyError when a projection drops a row that is not there."""
        for record in records:
            before = self.jobs.get(record.job_id)
            after = self.jobs[record.job_id] = evolve(before, record)
            for projection in self._projections:
                for table, key, value in projection.project(self, before, record, after):
                    self._change(table, key, value)
            self.size = record.position

    def _change(self, table: Table, key: Key, value: Value | None) -> None:
        rows = self._tables[table]
        if table.counters:
            rows[key] = rows.get(key, 0) + value
        elif value is None:
            del rows[key]
        elif not (table.first_stays and key in rows):
            rows[key] = value

    def row(self, table: Table, key: Key) -> Value | None:
        """See domain.projection.Rows."""
        return self._tables[table].get(key)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        """See domain.projection.Rows."""
        keys = [key for key in self._tables[table] if key[: len(prefix)] == prefix]
        if beyond is not None:
            keys = [key for key in keys if (key < beyond if reverse else key > beyond)]
        return iter([(key, self._tables[table][key]) for key in sorted(keys, reverse=reverse)])

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        """See domain.projection.Rows."""
        first: dict[Key, tuple[Key, Value]] = {}
        for key, value in self.rows(table, prefix):
            first.setdefault(key[:names], (key, value))
        return iter(first.values())

    def differing(self, stored: Rows) -> list[str]:
        """The names of the tables whose stored rows are not those of the fold."""
        return [table.name for table in self._tables if list(stored.rows(table)) != list(self.rows(table))]


def newer(projections: Sequence[Projection], by: int = 1) -> tuple[Projection, ...]:
    """The same projections, each as if its rule had changed so many times: an engine has to fold them anew."""
    if by == 0:
        return tuple(projections)
    return tuple(type(type(each).__name__, (type(each),), {"version": each.version + by})() for each in projections)
