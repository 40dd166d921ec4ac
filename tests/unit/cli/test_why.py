"""The sentence of `eventjobs why`: true in each case, and no word about what is not known."""

from __future__ import annotations

import pytest

from eventjobs.cli.why import reason

NOW = "2026-11-30T00:00:10.000000Z"


@pytest.mark.parametrize(
    ("asked", "spared_until", "said"),
    [
        ({}, None, ", and is about to be ended"),
        (None, None, ", and no coordinator has ended it yet"),
        (
            {},
            "2026-11-30T00:00:14.000000Z",
            ", while nobody could renew it; after the outage the coordinator waits until 2026-11-30 00:00:14.000 "
            "for what the worker may have to say",
        ),
    ],
)
def test_a_lease_that_ran_out_is_not_said_to_be_held(asked: dict | None, spared_until: str | None, said: str) -> None:
    """When it ran out, and what is waited for: a coordinator, its next moment, or the worker after an outage."""
    found = {
        "reason": "expiring",
        "time": NOW,
        "lease_owner": "w",
        "lease_expires_at": "2026-11-30T00:00:09.000000Z",
        "spared_until": spared_until,
        "asked": asked,
    }
    assert reason(found) == f"the lease of worker w ran out at 2026-11-30 00:00:09.000{said}"


def test_workers_that_are_full_or_gone_are_not_said_to_wait() -> None:
    """Who holds as many jobs as it can, and who has not asked for long, each by its name."""
    latest = [{"worker": "w", "queues": None, "kinds": None, "time": "2026-11-30T00:00:00.000000Z", "full": True}]
    asked = {"since": NOW, "for_this": True, "requests": 1, "latest": latest}
    found = {"time": NOW, "queue": "q", "kind": "k", "asked": asked, "ahead": {"jobs": 0, "more": False, "lanes": []}}
    full = "the workers that ask for it hold as many jobs as they have room for, and ask again when one ends"
    assert reason(found | {"reason": "workers_full"}) == f"{full}; last asked: w 10.00 s ago; it is the next"
    ahead = {"jobs": 2, "more": False, "lanes": [{"queue": "q", "kind": "k", "jobs": 2}]}
    assert reason(found | {"reason": "workers_full", "ahead": ahead}).endswith("; 2 jobs are (2 k in q) before it")
    gone = "no worker asks this coordinator for queue q and kind k any more; last asked: w 10.00 s ago"
    assert reason(found | {"reason": "nobody_asks"}) == gone
