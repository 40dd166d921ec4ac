"""A store in a database while nobody else writes: coordinators wait, or answer that it is too busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from eventjobs.store.contract import StoreError, TryAgain
from eventjobs.store.postgres.connection import Session, meaning
from eventjobs.store.postgres.loading import APPEND
from eventjobs.store.postgres.locks import KEEPER_LOCK, LOCK_SPACE
from eventjobs.store.postgres.outside import Outside
from eventjobs.store.postgres.reader import HEAD, StoredHead
from eventjobs.store.postgres.settings import BEGIN, IDLE_MILLISECONDS, PATIENT, SETTINGS, bounded

LOCK_MILLISECONDS = 500
"""How long a rebuild waits for either of the locks that it needs, while it may be in somebody's way."""
ATTEMPTS_MAX = 60
TAKE_TURN = [
    (BEGIN, ()),
    (SETTINGS, ()),
    (bounded(LOCK_MILLISECONDS, 0, IDLE_MILLISECONDS), ()),
    ("LOCK TABLE eventjobs.jobs IN EXCLUSIVE MODE", ()),
    (APPEND, ()),
    (f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, {KEEPER_LOCK})", ()),
    (PATIENT, ()),
    (HEAD, ()),
]
"""Coordinators lock jobs before they take their turn to append, or only append: whoever waits for them in either order
may be waited for, so that it gives way soon and tries again."""


@contextmanager
def alone(url: str) -> Iterator[Outside]:
    """The store, in a transaction that is committed at the end. Raises StoreError, Away among them."""
    session = Session(url)
    try:
        yield Outside(session, {}, StoredHead.of_rows(_taken_turn(session)))
        session.run([("COMMIT", ())])
    except psycopg.Error as error:
        raise meaning(error) from error
    finally:
        session.drop()


def _taken_turn(session: Session) -> list[tuple]:
    """Keep everybody else from writing; the head."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return session.begin(TAKE_TURN)[-1]
        except psycopg.Error as error:
            session.roll_back()
            if not isinstance(meaning(error), TryAgain):
                raise
    raise StoreError("the coordinators leave no moment to write; stop them, or try again when there is less to do")
