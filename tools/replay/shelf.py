"""Values by job id: those that changed lately in memory, the others in a scratch store, so that memory stays flat.

Nothing is taken away again, and ids are UUIDs: `tools/verify/fold.py` needs both otherwise, and has its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from eventjobs.store.keys import uuid_bytes, uuid_text
from eventjobs.store.lmdb.scratch import Scratch

IN_MEMORY_MAX = 30_000

V = TypeVar("V")


class Shelf(Generic[V]):
    """One value for each job, kept in a table of a scratch store."""

    def __init__(
        self, scratch: Scratch, table: str, encode: Callable[[V], bytes], decode: Callable[[bytes], V]
    ) -> None:
        self._scratch, self._table, self._encode, self._decode = scratch, table, encode, decode
        self._recent: dict[str, V] = {}
        self._spilled = False

    def get(self, job_id: str) -> V | None:
        """The job's value, None when it has none."""
        found = self._recent.get(job_id)
        if found is not None or not self._spilled:
            return found
        stored = self._scratch.get(self._table, uuid_bytes(job_id))
        return None if stored is None else self._decode(stored)

    def put(self, job_id: str, value: V) -> None:
        """Set the job's value. Raises StorageFull when there is no room for those that are not kept in memory."""
        self._recent[job_id] = value
        if len(self._recent) > IN_MEMORY_MAX:
            self._spill()

    def items(self) -> Iterator[tuple[str, V]]:
        """All values in the order of the ids, which is about that of arrival. Nothing may be put meanwhile."""
        self._spill()
        return ((uuid_text(key), self._decode(stored)) for key, stored in self._scratch.rows(self._table))

    def _spill(self) -> None:
        encode = self._encode
        self._scratch.write(
            self._table, sorted((uuid_bytes(job_id), encode(value)) for job_id, value in self._recent.items())
        )
        self._scratch.commit()
        self._recent.clear()
        self._spilled = True
