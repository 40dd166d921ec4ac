"""Hearing of other coordinators' commits: a thread with a connection of its own. A hint, never the truth.

Behind a pooler nobody listens: what is heard there would be anybody's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import structlog

from eventjobs.store.contract import StoreError
from eventjobs.store.postgres.connection import connect, is_pooled

CHANNEL = "eventjobs"
LOOK_SECONDS = 0.5
"""How long a stop may take to be noticed."""
AGAIN_SECONDS = 1.0

log = structlog.get_logger("eventjobs.store")


class Listener:
    """Calls `moved` for each notification, and once after each connection was made: something may have been missed."""

    def __init__(self, url: str, moved: Callable[[], None]) -> None:
        self._url, self._moved = url, moved
        self._hears = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eventjobs-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, StoreError) as error:
                if self._hears:  # else it was told already
                    log.warning("listening_again", reason=" ".join(str(error).split()))
                self._hears = False
                self._stopping.wait(AGAIN_SECONDS)

    def _listen(self) -> None:
        with closing(connect(self._url)) as connection:
            if is_pooled(connection):
                log.warning("not_listening", reason="a pooler is in between: commits of others show within a second")
                self._stopping.set()
                return
            connection.execute(f"LISTEN {CHANNEL}")
            self._hears = True
            self._moved()
            while not self._stopping.is_set():
                for _ in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                    self._moved()
