"""Everything that a store can be asked, question by question: two stores that give the same answers hold the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from eventjobs.domain.events import JobEnqueued, JobLeased
from eventjobs.domain.job import State
from eventjobs.projections import dead_list, history, listing, stats
from eventjobs.store.contract import BARE, HOLDING, KEYED, Reader, Transaction
from eventjobs.store.indexes import ATTEMPT_ERRORS
from eventjobs.testing.builders import an_id

NOT_THERE = 20
"""How many jobs and keys are asked for that are not there."""
ALL = 1_000_000

Question = Callable[[], object]


@frozen
class Known:
    """What a store can be asked for by name."""

    size: int
    job_ids: tuple[str, ...]
    keys: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    last_time: int

    @classmethod
    def of(cls, reader: Reader) -> Known:
        """What the log of a sound store tells."""
        records = reader.records(0, ALL)
        enqueued = [(record.job_id, record.event) for record in records if isinstance(record.event, JobEnqueued)]
        leased = [record.event for record in records if isinstance(record.event, JobLeased)]
        return cls(
            size=len(records),
            job_ids=tuple(job_id for job_id, _ in enqueued),
            keys=tuple(event.idempotency_key for _, event in enqueued if event.idempotency_key is not None),
            requests=tuple(
                dict.fromkeys((each.worker, each.request_id) for each in leased if each.request_id is not None)
            ),
            queues=tuple(sorted({event.queue for _, event in enqueued})),
            kinds=tuple(sorted({event.kind for _, event in enqueued})),
            last_time=records[-1].time if records else 0,
        )


def questions(store: Transaction, known: Known) -> Iterator[tuple[str, Question]]:
    """Each question with its name. A transaction is asked, since it is read as a reader is and answers more."""
    yield from _of_the_log(store, known)
    yield from _of_jobs(store, known)
    for queue in (None, *known.queues):
        for kind in (None, *known.kinds):
            yield from _of_a_lane(store, known, queue, kind)
    yield "statistics", lambda: stats.read(store)
    yield "next expiry", store.next_expiry
    yield "expired", lambda: store.expired(known.last_time + ALL * ALL, ALL)
    yield "due times", lambda: list(_due_times(store))
    for stage in (HOLDING, BARE, KEYED):
        yield f"endings {stage}", lambda stage=stage: list(_endings(store, known, stage))
    yield "errors of attempts", lambda: [store.row(ATTEMPT_ERRORS, (job_id,)) for job_id in known.job_ids]


def _of_the_log(store: Transaction, known: Known) -> Iterator[tuple[str, Question]]:
    positions = range(known.size + 2)
    yield "head", store.head
    yield "records", lambda: store.records(0, ALL)
    yield "records one by one", lambda: [store.record(position) for position in positions]
    yield "texts", lambda: [store.record_text(position) for position in positions]
    yield "pages of records", lambda: [store.records(after, 7) for after in positions[::5]]
    yield "roots", lambda: [store.root(size) for size in range(0, known.size + 1, 7)]
    yield "proofs", lambda: [store.inclusion_proof(position, known.size) for position in range(1, known.size + 1, 13)]


def _of_jobs(store: Transaction, known: Known) -> Iterator[tuple[str, Question]]:
    ids = (*known.job_ids, *map(an_id, range(ALL, ALL + NOT_THERE)))
    keys = (*known.keys, *map("no key {}".format, range(NOT_THERE)))
    requests = (*known.requests, *(("nobody", f"no request {number}") for number in range(NOT_THERE)))
    yield "jobs", lambda: [store.job(job_id) for job_id in ids]
    yield (
        "contents",
        lambda: [
            store.content(content)
            for job in filter(None, map(store.job, known.job_ids))
            for content in (job.spec.payload, job.result, job.error)
            if content is not None
        ],
    )
    yield "key holders", lambda: [store.key_holder(key) for key in keys]
    yield "grants", lambda: [store.grants(*request, known.last_time) for request in requests]
    yield "histories", lambda: [history.positions(store, job_id) for job_id in ids]
    yield "later histories", lambda: [history.positions(store, job_id, 1, 2) for job_id in ids]


def _of_a_lane(store: Transaction, known: Known, queue: str | None, kind: str | None) -> Iterator[tuple[str, Question]]:
    name = f"of queue {queue or 'any'} and kind {kind or 'any'}"
    lane = {"kind": kind, "queue": queue, "limit": ALL}
    for state in (None, *State):
        yield f"{state or 'jobs'} {name}", lambda state=state: listing.page(store, state=state, below=None, **lane)
    yield (
        f"pages {name}",
        lambda: [
            listing.page(store, state=None, below=below, **lane | {"limit": 3}) for below in range(1, known.size, 11)
        ],
    )
    yield f"newest dead {name}", lambda: dead_list.page(store, **lane)
    yield f"oldest dead {name}", lambda: dead_list.oldest(store, **lane)
    asked = [None if each is None else [each] for each in (queue, kind)]
    yield f"candidates {name}", lambda: store.candidates(*asked, known.last_time + ALL * ALL, ALL)


def _endings(store: Transaction, known: Known, stage: str) -> Iterator[object]:
    for lane, first in store.ending_lanes(stage):
        yield lane, first, store.ended(lane, known.last_time, ALL)


def _due_times(store: Transaction) -> Iterator[object]:
    found = store.next_due(0)
    while found is not None:
        yield found
        found = store.next_due(found[0])
