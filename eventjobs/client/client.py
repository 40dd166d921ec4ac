"""The client: every request of the wire contract as one awaitable method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import uuid_utils

from eventjobs.client.answers import (
    EnqueuedMany,
    Erased,
    Event,
    EventPage,
    Head,
    History,
    ItemResult,
    Job,
    JobPage,
    Leased,
    Requeued,
    Results,
    Stats,
    decoded,
)
from eventjobs.client.checks import items, names, sent_number, sent_text, setting
from eventjobs.client.errors import BadAnswer, Unavailable
from eventjobs.client.repeating import repeated
from eventjobs.client.requests import Completion, Failure, NewJob, Renewal, error_member
from eventjobs.client.settings import Retry, Timeouts
from eventjobs.client.stream import follow
from eventjobs.client.transport import Transport
from eventjobs.client.values import array_text, object_text, to_json
from eventjobs.domain.limits import POSITION_MAX, URL_DEFAULT

T = TypeVar("T")


class Client:
    """A coordinator's client for one event loop; close it, or use it as an async context manager.

    Requests are repeated within `retry` when no answer came or the coordinator said: not now. That is safe: an
    enqueue always carries an idempotency key and a lease a request id, made up when the caller gave none. Where
    it would not be safe (`requeue_dead`, `erase_many`), nothing is repeated that may have been carried out. `actor` is
    the name that the log keeps for what this client asks. `session` opens the connections at the first request; it is
    called with `headers`, and may be a functools.partial(aiohttp.ClientSession, connector=...). All methods raise
    Unreachable, BadAnswer or Refused (errors.py has the tree), and InvalidValue before anything is sent.
    """

    def __init__(
        self,
        url: str = URL_DEFAULT,
        *,
        actor: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: Retry = Retry(),  # noqa: B008 - frozen
        session: Callable[..., aiohttp.ClientSession] = aiohttp.ClientSession,
    ) -> None:
        setting("timeouts", timeouts, Timeouts, "a Timeouts")
        setting("retry", retry, Retry, "a Retry")
        self._transport = Transport(url, actor, timeouts, session)
        self._retry = retry

    @property
    def url(self) -> str:
        """Where the coordinator is."""
        return self._transport.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. The client cannot be used again."""
        await self._transport.close()

    # producing

    async def enqueue(
        self,
        kind: str,
        payload: object = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        run_at: datetime | None = None,
        delay_seconds: float | None = None,
        retry_policy: Mapping[str, object] | str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Put one job in; the job a known idempotency key belongs to, as it stands now. NewJob tells the members."""
        job = NewJob(kind, payload, queue, priority, max_attempts, run_at, delay_seconds, retry_policy, idempotency_key)
        return await self._post("/jobs", job.text(_new_key()), Job)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> EnqueuedMany:
        """Put up to 1,000 jobs in, all or none. A repeat after a lost answer does not count as created."""
        key = _new_key()
        texts = [job.text(f"{key}.{index}") for index, job in enumerate(items(jobs, NewJob))]
        return await self._post("/jobs/batch", object_text({}, jobs=array_text(texts)), EnqueuedMany)

    # working

    async def lease(
        self,
        worker: str,
        *,
        max_jobs: int = 1,
        lease_seconds: float = 30.0,
        wait_seconds: float = 0.0,
        queues: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        request_id: str | None = None,
    ) -> list[Job]:
        """Take up to `max_jobs` due jobs, waiting up to `wait_seconds` for the first; empty when there is none.

        Each comes with the `lease_token` that everything about it must name. The same worker and `request_id` again:
        those of the same jobs that are still held.
        """
        members = {
            "worker": worker,
            "max_jobs": max_jobs,
            "lease_seconds": lease_seconds,
            "wait_seconds": sent_number("wait_seconds", wait_seconds),
            "queues": names("queues", queues),
            "kinds": names("kinds", kinds),
            "request_id": request_id or uuid4().hex,
        }
        return (await self._post("/lease", object_text(members), Leased, wait_seconds)).jobs

    async def renew(self, job_id: str, token: int, lease_seconds: float | None = None) -> Job:
        """Move the expiry of a lease. Refused with StaleToken or LeaseExpired."""
        return await self._act(job_id, "renew", {"token": token, "lease_seconds": lease_seconds})

    async def renew_many(self, renewals: Iterable[Renewal]) -> list[ItemResult]:
        """Renew up to 1,000 leases; one result for each, in order."""
        return await self._many("/renew", [each.text() for each in items(renewals, Renewal)])

    async def complete(self, job_id: str, token: int, result: object = None) -> Job:
        """Record success with its result. Refused with StaleToken when the lease is over."""
        body = object_text({"token": token}, result=to_json(result, "result"))
        return await self._post(_job_path(job_id, "complete"), body, Job)

    async def complete_many(self, completions: Iterable[Completion]) -> list[ItemResult]:
        """Complete up to 1,000 jobs; one result for each, in order."""
        return await self._many("/complete", [each.text() for each in items(completions, Completion)])

    async def fail(
        self,
        job_id: str,
        token: int,
        error: str | Mapping[str, str],
        *,
        retry: bool = True,
        retry_in_seconds: float | None = None,
    ) -> Job:
        """Record a failed attempt. Failure tells the members. Refused with StaleToken when the lease is over."""
        members = {"token": token, "error": error_member(error), "retry": retry, "retry_in_seconds": retry_in_seconds}
        return await self._act(job_id, "fail", members)

    async def fail_many(self, failures: Iterable[Failure]) -> list[ItemResult]:
        """Record up to 1,000 failed attempts; one result for each, in order."""
        return await self._many("/fail", [each.text() for each in items(failures, Failure)])

    async def release(self, job_id: str, token: int) -> Job:
        """Give a job back; the attempt does not count. StaleToken may mean that a lost answer had already done it."""
        return await self._act(job_id, "release", {"token": token})

    # operating

    async def cancel(self, job_id: str, reason: str | None = None) -> Job:
        """Stop a job for good. Refused with IllegalTransition when it has succeeded or is dead."""
        return await self._act(job_id, "cancel", {"reason": reason})

    async def requeue(self, job_id: str) -> Job:
        """Give a dead job a fresh set of attempts. IllegalTransition may mean that a lost answer did it already."""
        return await self._act(job_id, "requeue", {})

    async def requeue_dead(
        self,
        *,
        ids: Sequence[str] | None = None,
        kind: str | None = None,
        queue: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Requeue dead jobs, oldest first, and say how many. Each argument narrows the choice; none means all.

        Asked twice it would take further jobs, unless `ids` without a `limit` say which. So it raises Unreachable or
        Unavailable, instead of asking again, once it may have been carried out.
        """
        members = {"ids": names("ids", ids), "kind": kind, "queue": queue, "limit": limit}
        safe = ids is not None and limit is None
        return (await self._post("/dead/requeue", object_text(members), Requeued, safe=safe)).requeued

    async def erase(self, job_id: str, reason: str | None = None) -> Job:
        """Erase payload, result and errors of a finished job. Refused with IllegalTransition when it is not one."""
        return await self._act(job_id, "erase", {"reason": reason})

    async def erase_many(
        self,
        *,
        ids: Sequence[str] | None = None,
        kind: str | None = None,
        queue: str | None = None,
        state: str | None = None,
        older_than_seconds: float | None = None,
        reason: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Erase the contents of up to 1,000 finished jobs, oldest end first, and say of how many; ask again until it is
        none. Each argument narrows the choice; one of the first five has to be given.

        With a `limit` it raises Unreachable or Unavailable, instead of asking again, once it may have been carried out.
        """
        members = {
            "ids": names("ids", ids),
            "kind": kind,
            "queue": queue,
            "state": state,
            "older_than_seconds": older_than_seconds and sent_number("older_than_seconds", older_than_seconds),
            "reason": reason,
            "limit": limit,
        }
        return (await self._post("/erase", object_text(members), Erased, safe=limit is None)).erased

    async def job(self, job_id: str) -> Job:
        """One job as it stands. Refused with JobNotFound."""
        return await self._get(_job_path(job_id), Job)

    async def history(self, job_id: str) -> list[Event]:
        """The events of one job, oldest first, in as many requests as it takes. Refused with JobNotFound."""
        path, found = _job_path(job_id, "events"), []
        while page := (await self._get(path, History, after=found[-1].version if found else None)).events:
            if found and page[0].version != found[-1].version + 1:
                raise BadAnswer(f"version {page[0].version} of {job_id} came after version {found[-1].version}")
            found += page
        return found

    def jobs(
        self, *, state: str | None = None, kind: str | None = None, queue: str | None = None
    ) -> AsyncIterator[Job]:
        """All jobs that match, newest first, page by page."""
        return self._walk("/jobs", state=state, kind=kind, queue=queue)

    async def jobs_page(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> JobPage:
        """One page of the jobs that match, newest first."""
        return await self._get("/jobs", JobPage, state=state, kind=kind, queue=queue, limit=limit, cursor=cursor)

    def dead(self, *, kind: str | None = None, queue: str | None = None) -> AsyncIterator[Job]:
        """All dead jobs that match, newest first, page by page."""
        return self._walk("/dead", kind=kind, queue=queue)

    async def dead_page(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> JobPage:
        """One page of the dead jobs that match, newest first."""
        return await self._get("/dead", JobPage, kind=kind, queue=queue, limit=limit, cursor=cursor)

    # auditing and observing

    async def events(self, *, after: int = 0, limit: int | None = None) -> EventPage:
        """The events with a position greater than `after`, oldest first, and the head of the log."""
        return await self._get("/events", EventPage, after=after, limit=limit)

    async def tail(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """Follow the log without end: every event after a position, or from now on. Survives broken connections."""
        start = (await self.head()).size if after is None else after
        async for event in follow(self._transport, self._retry, start):
            yield event

    async def head(self) -> Head:
        """The size of the log and the root of its Merkle tree."""
        return (await self.events(after=POSITION_MAX, limit=1)).head

    async def stats(self) -> Stats:
        """How many jobs are in which state, and how long they took."""
        return await self._get("/stats", Stats)

    async def metrics(self) -> str:
        """The numbers in the text format of Prometheus."""
        return (await self._send("GET", "/metrics")).decode("utf-8")

    async def health(self) -> bool:
        """Whether the coordinator takes requests now. Asked once: raises Unreachable when it does not answer."""
        try:
            await self._transport.request("GET", "/readyz")
        except Unavailable:
            return False
        return True

    async def _walk(self, path: str, **choice: str | None) -> AsyncIterator[Job]:
        cursor = None
        while True:
            page = await self._get(path, JobPage, **choice, cursor=cursor)
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _act(self, job_id: str, verb: str, members: dict[str, object]) -> Job:
        return await self._post(_job_path(job_id, verb), object_text(members), Job)

    async def _many(self, path: str, texts: list[bytes]) -> list[ItemResult]:
        results = (await self._post(path, object_text({}, jobs=array_text(texts)), Results)).results
        if len(results) != len(texts):
            raise BadAnswer(f"{len(texts)} items were sent to {path}, but {len(results)} results came")
        return results

    async def _post(self, path: str, body: bytes, shape: type[T], wait_seconds: float = 0.0, *, safe: bool = True) -> T:
        return decoded(await self._send("POST", path, body=body, wait_seconds=wait_seconds, safe=safe), shape)

    async def _get(self, path: str, shape: type[T], **query: object) -> T:
        return decoded(await self._send("GET", path, query=query), shape)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        wait_seconds: float = 0.0,
        safe: bool = True,
    ) -> bytes:
        return await repeated(
            lambda: self._transport.request(method, path, query=query, body=body, wait_seconds=wait_seconds),
            self._retry,
            safe=safe,
        )


def _job_path(job_id: str, verb: str | None = None) -> str:
    path = f"/jobs/{quote(sent_text('job_id', job_id), safe='')}"
    return path if verb is None else f"{path}/{verb}"


def _new_key() -> str:
    """An idempotency key of our own: keys that rise with time lie side by side in the coordinator's index."""
    return str(uuid_utils.uuid7())
