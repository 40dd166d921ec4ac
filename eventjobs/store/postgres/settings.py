"""How transactions begin: their isolation, and how long they may wait and take, whatever a server or a role has set.

Everything is set for one transaction, so that it passes a pooler.
"""

from __future__ import annotations

LOCK_MILLISECONDS = 4_000
"""How long a transaction waits for a row, a table, or its turn to append."""
BRIEF_LOCK_MILLISECONDS = 100
STATEMENT_MILLISECONDS = 30_000
IDLE_MILLISECONDS = 10_000
"""A coordinator that stops in the middle of a transaction, paused or cut off, holds up the others for so long."""
READ_IDLE_MILLISECONDS = 60_000
"""One that stops while it reads holds up nobody, but keeps dead rows."""
OUTLASTING_MILLISECONDS = IDLE_MILLISECONDS + 2_000
"""Long enough for whoever holds the append lock to go on or to be ended."""


def bounded(lock: int, statement: int, idle: int) -> str:
    """What bounds the transaction, in milliseconds; 0 for no bound."""
    bounds = {"lock_timeout": lock, "statement_timeout": statement, "idle_in_transaction_session_timeout": idle}
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in bounds.items())


BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Each statement sees what was committed before it: the head is read after the lock on it was waited for."""
SETTINGS = (
    f"{bounded(LOCK_MILLISECONDS, STATEMENT_MILLISECONDS, IDLE_MILLISECONDS)}, "
    "set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), "
    "set_config('enable_mergejoin', 'off', true), set_config('synchronous_commit', 'on', true)"
)
"""Of a transaction that writes. The plans are told to go by the indexes, whatever is believed of the tables' sizes."""
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
READING = bounded(LOCK_MILLISECONDS, STATEMENT_MILLISECONDS, READ_IDLE_MILLISECONDS)
NOT_FOR_LONG = bounded(BRIEF_LOCK_MILLISECONDS, STATEMENT_MILLISECONDS, READ_IDLE_MILLISECONDS)
"""Of the rest of a transaction that reads: what it asks now can be left open."""
PATIENT = bounded(0, 0, 0)
"""Of a transaction that nobody waits for, or that must come to its end."""
OUTLASTING = bounded(OUTLASTING_MILLISECONDS, STATEMENT_MILLISECONDS, IDLE_MILLISECONDS)
