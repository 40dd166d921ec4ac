"""The producer's calls for programs without an event loop, such as the views of a web framework.

No second client: the asynchronous one runs on an event loop in a thread of its own, and each method here waits for
one of its calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from eventjobs.client.answers import EnqueuedMany, Job, Stats
from eventjobs.client.client import Client
from eventjobs.client.requests import NewJob
from eventjobs.client.settings import Retry, Timeouts
from eventjobs.domain.limits import URL_DEFAULT

T = TypeVar("T")

CLOSING_SECONDS = 5.0


class _Engine:
    """A client, and the thread with the event loop it lives on."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="eventjobs-client", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel the calls in flight, close the client and end the thread.

        May be called by any thread, the engine's own included (the garbage collector runs where it likes), and does
        nothing in a forked process, where the thread does not exist.
        """
        if self._process != os.getpid() or not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._close())
        finally:
            self.loop.close()

    async def _close(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self.client.close()


class BlockingClient:
    """Enqueue, look at and cancel jobs from ordinary functions, from any thread.

    Takes what Client takes. The thread starts with the first call, and anew in a forked process, so that one
    instance at the top of a module serves a preforking server. Waits as long as `retry` allows, and raises what
    Client raises.
    """

    def __init__(
        self,
        url: str = URL_DEFAULT,
        *,
        actor: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: Retry = Retry(),  # noqa: B008 - frozen
    ) -> None:
        self._make = lambda: Client(url, actor=actor, timeouts=timeouts, retry=retry)
        self._make()  # a wrong address or name is told here and not at the first call
        self._engine: _Engine | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the calls in flight and end the thread. The client cannot be used again."""
        self._closed = True
        if self._engine is not None:
            self._engine.stop()

    def enqueue(
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
        """Client.enqueue."""
        return self._wait(
            lambda client: client.enqueue(
                kind,
                payload,
                queue=queue,
                priority=priority,
                max_attempts=max_attempts,
                run_at=run_at,
                delay_seconds=delay_seconds,
                retry_policy=retry_policy,
                idempotency_key=idempotency_key,
            )
        )

    def enqueue_many(self, jobs: Iterable[NewJob]) -> EnqueuedMany:
        """Client.enqueue_many."""
        return self._wait(lambda client: client.enqueue_many(jobs))

    def job(self, job_id: str) -> Job:
        """Client.job."""
        return self._wait(lambda client: client.job(job_id))

    def cancel(self, job_id: str, reason: str | None = None) -> Job:
        """Client.cancel."""
        return self._wait(lambda client: client.cancel(job_id, reason))

    def requeue(self, job_id: str) -> Job:
        """Client.requeue."""
        return self._wait(lambda client: client.requeue(job_id))

    def stats(self) -> Stats:
        """Client.stats."""
        return self._wait(lambda client: client.stats())

    def _wait(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        engine = self._running()
        answer = asyncio.run_coroutine_threadsafe(call(engine.client), engine.loop)
        try:
            return answer.result()
        except BaseException:
            answer.cancel()  # interrupted while waiting: the call ends too; without effect when it has ended
            raise

    def _running(self) -> _Engine:
        if self._closed:
            raise RuntimeError("this client was closed")
        if self._process != os.getpid():  # forked: the lock may be held by a thread that exists no more
            self._lock, self._process, self._engine = threading.Lock(), os.getpid(), None
        with self._lock:
            if self._engine is None:
                self._engine = _Engine(self._make())
                weakref.finalize(self, self._engine.stop)
            return self._engine
