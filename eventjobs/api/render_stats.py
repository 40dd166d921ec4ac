"""Statistics as the wire shows them."""

from __future__ import annotations

from eventjobs.api.render import Document
from eventjobs.api.render_events import head_document
from eventjobs.api.view import Head
from eventjobs.projections.stats import Stats


def stats_document(numbers: Stats, head: Head) -> Document:
    """The counters, and the head of the log they stand for."""
    return {
        "jobs": numbers.jobs,
        "queues": numbers.queues,
        "kinds": numbers.kinds,
        "average_wait_seconds": numbers.average_wait_seconds,
        "average_run_seconds": numbers.average_run_seconds,
        "lease_expirations": numbers.lease_expirations,
        "head": head_document(head),
    }
