"""Reading the intake from where something can be: rows that were taken out stay in its index while somebody holds a
transaction open, and a look from the beginning would walk over all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from eventjobs.domain.intake import Asked

ASKED = """
SELECT number, id::text, held, request::text, payload, actor, asked_at FROM (
    SELECT *, row_number() OVER numbers AS place, sum(coalesce(octet_length(payload), 0)) OVER numbers AS total
    FROM (SELECT * FROM eventjobs.intake WHERE number > %s ORDER BY number LIMIT %s) AS first
    WINDOW numbers AS (ORDER BY number)
) AS counted WHERE total <= %s OR place = 1 ORDER BY number
"""
ASKED_AT = "SELECT asked_at FROM eventjobs.intake WHERE number > %s ORDER BY number LIMIT 1"
SNAPSHOT = (
    "SELECT oldest, oldest + age(mod(oldest, 4294967296)::text::xid) "
    "FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest) AS snapshot"
)
"""The oldest transaction that is under way, and the first that has not begun. (A snapshot's own xmax is no such bound:
it only passes those that have ended.)"""
ALL_SECONDS = 60.0
"""How often it is looked from the beginning all the same."""

Fetch = Callable[[str, tuple], list[tuple]]


class Low:
    """The number up to which nothing will be in the intake any more.

    A transaction has its own number before it draws one of the intake's (eventjobs.ask sees to that). So when a look
    has found a row, whoever may still put one below it has begun by then; and when all that had begun are over, and a
    look finds nothing up to that row, nothing will come there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number, self._all_at = 0, clock()
        self._next: tuple[int, int] | None = None

    @property
    def number(self) -> int:
        """Where to look from; now and then the beginning."""
        return 0 if self._clock() >= self._all_at + ALL_SECONDS else self._number

    def passed(self, after: int, found: bool) -> None:
        """A look from `after` on found nothing, or something. What a look from the beginning found is yet to be read,
        from the beginning too."""
        if after == 0 and not found:
            self._all_at = self._clock()

    def saw(self, after: int, numbers: list[int], oldest: int, first_to_come: int) -> None:
        """A look from `after` on found these numbers, by a snapshot (see SNAPSHOT)."""
        if after == 0:
            self._all_at = self._clock()
        if self._next is not None:
            number, begun_before = self._next
            if oldest >= begun_before and (not numbers or numbers[0] > number):
                self._number, self._next = number, None
        if self._next is None and numbers:
            self._next = numbers[-1], first_to_come


def read_asked(fetch: Fetch, low: Low, limit: int, size: int) -> list[Asked]:
    """The first requests, by number: up to `limit`, and of `size` bytes or the first alone. In one snapshot."""
    after = low.number
    ((oldest, first_to_come),) = fetch(SNAPSHOT, ())
    found = [
        Asked(number, job_id, held, _request(request, payload), actor, time)
        for number, job_id, held, request, payload, actor, time in fetch(ASKED, (after, limit, size))
    ]
    low.saw(after, [asked.number for asked in found], oldest, first_to_come)
    return found


def _request(members: str, payload: bytes | None) -> bytes:
    """The JSON object that POST /jobs would take: the members, which are never none, and the payload as it is."""
    return members.encode() if payload is None else b'{"payload":' + payload + b"," + members[1:].encode()
