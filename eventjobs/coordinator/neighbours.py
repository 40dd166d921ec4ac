"""What other coordinators do to a shared store: looked for all the time, as nothing else tells for certain.

A look is one short question on a thread of its own: how large the log is, and what the store's clock says. It is asked
every LOOK_SECONDS, and sooner after a hint. That the store answers it is also what says that it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from eventjobs.coordinator.replies import Unavailable
from eventjobs.coordinator.store_time import StoreTime
from eventjobs.store.contract import Away, SharedEngine, TryAgain

LOOK_SECONDS = 0.9
"""The longest time between two looks, so that what others do is noticed within a second."""
HINT_SECONDS = 0.05
"""The shortest: hints that come faster are taken together."""
QUIET_LOOKS = 10
"""While nothing is written it is taken that something has moved once in this many looks, and once more after each that
found something: a job that a request for jobs passed over, as another coordinator had it locked, is free since."""
OUTAGE_SECONDS = 1.0
"""An absence that workers have felt."""

log = structlog.get_logger("eventjobs.coordinator")


class Neighbours:
    """Looks at the store until it is stopped. `moved` is called when anything was written since the last look, or when
    somebody asked for it; while it raises Unavailable it is called again with the next look. `back` is called when the
    store is there again after OUTAGE_SECONDS or more, `asked` with each look: since when the oldest request of the
    intake waits, None without any."""

    def __init__(
        self,
        engine: SharedEngine,
        time: StoreTime,
        moved: Callable[[], Awaitable[None]],
        back: Callable[[], None],
        asked: Callable[[int | None], None],
    ) -> None:
        self._engine, self._time, self._moved, self._back, self._asked = engine, time, moved, back, asked
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "eventjobs-neighbours")
        self._hinted = asyncio.Event()
        self._size: int | None = None
        self._unmoved = 0
        self._task: asyncio.Task | None = None
        self._away_since: float | None = None

    @property
    def away(self) -> bool:
        """Whether the store did not answer lately."""
        return self._away_since is not None

    def begin(self) -> None:
        self._engine.watch(self._hint_from_thread)
        self._task = self._loop.create_task(self._run())

    def look_again(self) -> None:
        """Look soon, and take it that something has moved."""
        self._size = None
        self._hinted.set()

    def store_is_away(self) -> None:
        """Somebody found that the store does not answer. It is asked until it does."""
        self._is_away()
        self.look_again()

    def _is_away(self) -> None:
        if self._away_since is None:
            self._away_since = self._loop.time()
            log.warning("store_away")

    def _is_there(self) -> None:
        if self._away_since is not None:
            seconds = self._loop.time() - self._away_since
            self._away_since = None
            log.warning("store_back", seconds=round(seconds, 3))
            if seconds >= OUTAGE_SECONDS:
                self._back()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)

    def _hint_from_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._hinted.set)
        except RuntimeError:  # the loop was closed: nobody looks any more
            return

    async def _run(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(HINT_SECONDS)
            try:
                async with asyncio.timeout(LOOK_SECONDS - HINT_SECONDS):
                    await self._hinted.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        self._hinted.clear()
        try:
            pulse = await self._loop.run_in_executor(self._thread, self._engine.pulse)
        except TryAgain as error:  # it is there: whoever asks for what is in the way is told so himself
            log.warning("look_put_off", reason=str(error))
            self._is_there()
            return None
        except Away:
            return self._is_away()
        except Exception:  # whatever it is, the next look is what would tell that it is over
            log.exception("look_failed")
            return self._is_away()
        self._time.hear(pulse.time)
        self._is_there()
        if pulse.intake_known:
            self._asked(pulse.asked_at)
        self._unmoved = self._unmoved + 1 if pulse.size == self._size else 0
        if self._unmoved % QUIET_LOOKS > 1:
            return None
        self._size = pulse.size
        try:
            await self._moved()
        except Unavailable:
            self._size = None
        except Exception:
            self._size = None
            log.exception("look_failed")
        return None
