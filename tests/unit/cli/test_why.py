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
