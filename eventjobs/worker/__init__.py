"""The worker: leases jobs, runs their handlers, keeps the leases alive and settles the outcomes. Needs no store."""

from eventjobs.worker.context import JobContext
from eventjobs.worker.outcomes import GiveUp, RetryIn
from eventjobs.worker.worker import Worker

__all__ = ["GiveUp", "JobContext", "RetryIn", "Worker"]
