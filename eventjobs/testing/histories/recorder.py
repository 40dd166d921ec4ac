"""The recorder: one clock for all clients, everything that they asked and heard, and each job's history out of it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from eventjobs.testing.histories.operations import NOT_OFFERED, Answer, Ask, History, Lost, Operation, Refusal

TOLERANCE = 50_000
"""Microseconds by which the clocks of recorder and coordinator, both of one machine, may differ."""


@frozen(eq=False)
class LeaseCall:
    """A lease request. `jobs` are the documents it was answered with, None when the answer was lost; `room` tells
    whether it could have had more of them."""

    client: str
    ask: Ask
    called: int
    returned: int
    jobs: tuple[Mapping[str, Any], ...] | None
    room: bool

    @property
    def request(self) -> tuple[str, str]:
        """What makes two calls the same request."""
        return self.ask.worker, self.ask.request_id


class Recorder:
    """Notes what clients of one coordinator ask and hear. For one event loop, or one thread, at a time.

    Its clock runs by the monotonic one and was set by the system's when the recorder was made.
    """

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()
        self._operations: list[tuple[str, Operation]] = []
        self._leases: list[LeaseCall] = []
        self._keys: dict[str, str] = {}
        self._rivals: dict[str, set[str]] = defaultdict(set)

    def now(self) -> int:
        """Microseconds since 1970, never going back."""
        return (time.monotonic_ns() + self._offset) // 1_000

    def tolerance(self) -> int:
        """By how much this clock and the coordinator's may differ: more when the system's clock was moved."""
        return TOLERANCE + abs(time.time_ns() // 1_000 - self.now())

    def note(self, target: str, operation: Operation) -> None:
        """An operation on one job: `target` is the key that is enqueued under, for all others the job's id."""
        self._operations.append((target, operation))
        if isinstance(operation.outcome, Answer):
            self._note_job(operation.outcome.document)

    def note_lease(self, call: LeaseCall) -> None:
        """A lease request, which may concern any job."""
        self._leases.append(call)
        for document in call.jobs or ():
            self._note_job(document)

    def _note_job(self, document: Mapping[str, Any]) -> None:
        """Learn which key a job has. A part of a document does not tell."""
        if "idempotency_key" in document:
            self._keys[document["id"]] = document["idempotency_key"]
            self._rivals[document["idempotency_key"]].add(document["id"])

    def __len__(self) -> int:
        return len(self._operations) + len(self._leases)

    def job_ids(self) -> list[str]:
        """The ids of all jobs that were ever seen."""
        return list(self._keys)

    def outcomes(self) -> Counter[str]:
        """How often each operation came to what: ("complete answered", …)."""
        words = {Answer: "answered", Refusal: "refused", Lost: "lost"}
        found = Counter(f"{each.ask.name} {words[type(each.outcome)]}" for _, each in self._operations)
        found.update("lease lost" if each.jobs is None else "lease answered" for each in self._leases)
        return found

    def histories(self) -> list[History]:
        """One history for each key that was ever enqueued under.

        Operations on an id that no document ever named belong to no job, and are left out.
        """
        found: dict[str, list[Operation]] = defaultdict(list)
        for target, operation in self._operations:
            key = target if operation.ask.name == "enqueue" else self._keys.get(target)
            if key is not None:
                found[key].append(operation)
        for key, operations in found.items():
            operations += self._leases_of(key, min(each.called for each in operations), max(map(_returned, operations)))
        return [
            History(key, tuple(sorted(operations, key=lambda each: each.called)), tuple(sorted(self._rivals[key])))
            for key, operations in found.items()
        ]

    def _leases_of(self, key: str, first: int, last: int) -> Iterator[Operation]:
        """What lease requests have to do with the key's job: they gave it, may have given it, or did not find it.

        What was answered before the first enqueue, or asked after the last other operation, says nothing of use.
        """
        sent, given = Counter(), defaultdict(set)
        for call in self._leases:
            sent[call.request] += 1
            given[call.request].update(document["idempotency_key"] for document in call.jobs or ())
        for call in self._leases:
            repeated, known = sent[call.request] > 1, key in given[call.request]
            ask = call.ask if repeated else evolve(call.ask, request_id=None)
            ours = [document for document in call.jobs or () if document["idempotency_key"] == key]
            for document in ours:
                yield Operation(call.client, ask, call.called, call.returned, Answer(document))
            if ours or call.called > last:
                continue
            if call.jobs is None and (known or not given[call.request]):
                yield Operation(call.client, ask, call.called, call.returned, Lost("the answer to a lease"))
            elif call.jobs is not None and call.returned > first and call.room and (known or not repeated):
                yield Operation(call.client, ask, call.called, call.returned, Refusal(NOT_OFFERED))

    def contradictions(self) -> list[str]:
        """Lease requests that were given other jobs, or other tokens, when they were sent again."""
        first: dict[tuple[str, str], set[tuple[str, int]]] = {}
        found = []
        for call in sorted(self._leases, key=lambda each: each.returned):
            grants = {(document["id"], document["lease_token"]) for document in call.jobs or ()}
            if grants and not grants <= first.setdefault(call.request, grants):
                found.append(f"{call.ask} was given {first[call.request]}, and later {grants}")
        return found


def _returned(operation: Operation) -> int:
    return operation.returned
