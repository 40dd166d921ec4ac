"""Why the coordinator refused what a worker said of a lease, as far as its words tell."""

from __future__ import annotations

from eventjobs.client.answers import Problem

CANCELED = "the job is canceled"


def is_canceled(problem: Problem) -> bool:
    """Whether the lease is over because somebody canceled the job, which is nobody's fault.

    The code only says that the lease is over. The words say why and may change: nothing but the log hangs on them.
    """
    return problem.code == "stale_token" and problem.detail.endswith(CANCELED)
