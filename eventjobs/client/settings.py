"""How patient a client is: time limits of one request, and the budget for repeating it."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, gt, optional

from eventjobs.client.checks import number, whole


@frozen(kw_only=True)
class Timeouts:
    """Time limits of one request, in seconds.

    `answer_seconds` bounds each silence while an answer is awaited or read; a long-poll adds the time it asked for.
    `transfer_seconds` is what a request may take on top of that in all, for large bodies on slow lines.
    """

    connect_seconds: float = field(default=5.0, validator=and_(number, gt(0)))
    answer_seconds: float = field(default=10.0, validator=and_(number, gt(0)))
    transfer_seconds: float = field(default=60.0, validator=and_(number, gt(0)))


@frozen(kw_only=True)
class Retry:
    """How often and how long a request is repeated when no answer came or the coordinator said: not now.

    The wait grows from `first_wait_seconds` by two, with jitter, up to `longest_wait_seconds`; a Retry-After of the
    coordinator goes before. None for `attempts` or `seconds` means no limit of that sort. No wait goes past `seconds`:
    the last attempt begins when they are over at the latest.
    """

    attempts: int | None = field(default=None, validator=optional(and_(whole, ge(1))))
    seconds: float | None = field(default=45.0, validator=optional(and_(number, gt(0))))
    first_wait_seconds: float = field(default=0.1, validator=and_(number, gt(0)))
    longest_wait_seconds: float = field(default=5.0, validator=and_(number, gt(0)))

    @classmethod
    def never(cls) -> Retry:
        """Each request is sent once."""
        return cls(attempts=1)

    @classmethod
    def always(cls) -> Retry:
        """Each request is repeated until it is answered."""
        return cls(attempts=None, seconds=None)
