"""What must hold whenever the coordinator is left in peace.

Leases that ran out are ended; no job is due while a request for jobs of its kind and queue is waiting; nothing is
leased for somebody who has gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventjobs.coordinator.rescuer import GRACE_AFTER_OUTAGE
from eventjobs.domain.events import JobLeased, Record
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.testing.simulation.logbook import WAITING, Life, Logbook
from eventjobs.testing.simulation.messages import Message, message, short
from eventjobs.testing.simulation.network import Delivery
from eventjobs.testing.simulation.programs import ProgramLoop
from eventjobs.testing.simulation.serving import Machine
from eventjobs.testing.simulation.verdict import Verdict

PEACE_SECONDS = 4.0
"""How long the coordinator must have been undisturbed. After a full disk it tries again within a second or two."""
LATE_SECONDS = 1.1
"""A lease that ran out is ended within a second, but for the grace after an outage; a little more for the commit."""
WAKE_SECONDS = 0.6
"""Who waits for a job has it at once, or when it comes due: half a second late at most, if the clock hurries."""
GONE_SECONDS = 0.1
"""How long somebody must have been gone: a try may have been under way."""


class CalmWatch:
    """Looks at the coordinator from time to time, and at each lease."""

    def __init__(self, loop: ProgramLoop, machine: Machine, logbook: Logbook, verdict: Verdict) -> None:
        self._loop, self._machine, self._logbook, self._verdict = loop, machine, logbook, verdict

    def look(self) -> None:
        """Hold what can be seen now against what must be."""
        if self._machine.undisturbed_seconds < PEACE_SECONDS:
            return
        now = self._machine.coordinator.clock.now()
        long_ago, a_while_ago = (now - round(late * MICROSECONDS) for late in (LATE_SECONDS, WAKE_SECONDS))
        polls = list(self._polls())
        grace_is_over = self._machine.running.started_at + GRACE_AFTER_OUTAGE < long_ago
        for job_id, life in self._logbook.lives.items():
            if life.state == "running":
                ended = not grace_is_over or life.expires_at > long_ago
                self._hold(ended, f"the lease of job {short(job_id)} ran out and nobody ends it")
            elif life.state in WAITING and max(life.run_at, life.changed_at) < a_while_ago:
                waits = next((poll for poll, request in polls if _wants(request, life)), None)
                self._hold(waits is None, f"job {short(job_id)} is due, and {waits} waits for it in vain")

    def committed(self, records: list[Record]) -> None:
        """Hold that whoever was given a job is still there."""
        leases = [record for record in records if isinstance(record.event, JobLeased)]
        if not leases or self._machine.undisturbed_seconds < PEACE_SECONDS:
            return
        for record in leases:
            asked = [delivery for delivery in self._machine.running.serving if _asks_under(delivery, record.event)]
            gone = [delivery for delivery in asked if self._has_gone(delivery)]
            self._hold(not asked or gone != asked, f"{_name(record)} for {record.event.worker}, which has gone")

    def _polls(self) -> Iterator[tuple[Delivery, Message]]:
        """Requests for jobs that have waited for a while."""
        for delivery in self._machine.running.serving:
            request = _request(delivery)
            waits = request.verb == "lease" and delivery.hung_up_at is None and delivery.read_at is not None
            if waits and delivery.read_at + WAKE_SECONDS < self._loop.time():
                yield delivery, request

    def _has_gone(self, delivery: Delivery) -> bool:
        return delivery.hung_up_at is not None and delivery.hung_up_at + GONE_SECONDS < self._loop.time()

    def _hold(self, kept: bool, what: str) -> None:
        self._verdict.hold(kept, what)


def _request(delivery: Delivery) -> Message:
    exchange = delivery.exchange
    return message(exchange.method, exchange.target, exchange.body)


def _wants(request: Message, life: Life) -> bool:
    queues, kinds = request.body.get("queues"), request.body.get("kinds")
    return (queues is None or life.queue in queues) and (kinds is None or life.kind in kinds)


def _asks_under(delivery: Delivery, event: JobLeased) -> bool:
    request = _request(delivery)
    return request.verb == "lease" and request.body["request_id"] == event.request_id


def _name(record: Record) -> str:
    return f"job {short(record.job_id)} was leased at position {record.position}"
