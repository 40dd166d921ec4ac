"""eventjobs: a background-job coordinator that can prove what happened.

What programs use is here: the client to enqueue, the worker to run. Each part is loaded when it is first named, and
none of them loads a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventjobs.client import (
        BlockingClient,
        Client,
        Conflict,
        Event,
        EventjobsError,
        InvalidValue,
        Job,
        JobNotFound,
        NewJob,
        Refused,
        Retry,
        Timeouts,
        TooLarge,
        Unreachable,
    )
    from eventjobs.worker import GiveUp, JobContext, RetryIn, Worker

__version__ = "0.1.0"

__all__ = [
    "BlockingClient",
    "Client",
    "Conflict",
    "Event",
    "EventjobsError",
    "GiveUp",
    "InvalidValue",
    "Job",
    "JobContext",
    "JobNotFound",
    "NewJob",
    "Refused",
    "Retry",
    "RetryIn",
    "Timeouts",
    "TooLarge",
    "Unreachable",
    "Worker",
    "__version__",
]

_OF_WORKER = {"GiveUp", "JobContext", "RetryIn", "Worker"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_WORKER:
        from eventjobs import worker as part
    else:
        from eventjobs import client as part
    value = globals()[name] = getattr(part, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
