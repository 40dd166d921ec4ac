"""What a worker was told: how much at once, of which queues, and how patient."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len, optional

from eventjobs.client.checks import names, number, whole
from eventjobs.domain.limits import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, WAIT_SECONDS_MAX

SETTLE_BYTES_MAX = 8 << 20
"""Size of one settle request, about: half of what a coordinator accepts."""
ANSWER_SECONDS_MIN, ANSWER_SECONDS_MAX = 1.0, 10.0
STOP_CANCEL_SECONDS = 1.0
"""How long canceled handlers may take to end when the worker stops."""
STOP_SEND_SECONDS = 3.0
"""How long the last outcomes and releases may take to be sent. Grace, cancel and send together fit 30 seconds."""


@frozen(kw_only=True)
class Settings:
    """`concurrency` jobs at once; `queues` None means any; times are in seconds.

    `lease_seconds` is how long a silent worker keeps its jobs, `poll_seconds` how long a request for jobs is held
    open at most, `grace_seconds` how long handlers may go on when the worker is asked to stop.
    """

    concurrency: int = field(default=50, validator=and_(whole, ge(1), le(10_000)))
    queues: tuple[str, ...] | None = field(
        default=None, converter=lambda given: names("queues", given), validator=optional(min_len(1))
    )
    lease_seconds: float = field(default=30.0, validator=and_(number, ge(LEASE_SECONDS_MIN), le(LEASE_SECONDS_MAX)))
    grace_seconds: float = field(default=25.0, validator=and_(number, ge(0)))
    poll_seconds: float = field(default=20.0, validator=and_(number, ge(0), le(WAIT_SECONDS_MAX)))

    @property
    def renew_seconds(self) -> float:
        """The time from one round of renewals to the next: two rounds may be lost without losing a lease."""
        return self.lease_seconds / 3

    @property
    def answer_seconds(self) -> float:
        """How long an answer is waited for: less than a lease, so that a renewal that hangs is sent again in time."""
        return min(ANSWER_SECONDS_MAX, max(ANSWER_SECONDS_MIN, self.renew_seconds))

    @property
    def wait_seconds(self) -> float:
        """How long a request for jobs is held open.

        An answer that is lost without a word is missed when this and the patience for an answer are over. By then its
        jobs, which may have been leased at once, must still be held.
        """
        return min(self.poll_seconds, self.renew_seconds)
