"""What clients were told and what the log holds are held against each other in both directions."""

from __future__ import annotations

import pytest

from eventjobs.testing.histories import differences
from eventjobs.testing.histories.logged import unmatched

SECOND = 1_000_000


def log(*events):
    """Events of one job: (type, seconds, token or None, more data)."""
    return [
        {"version": version, "type": name, "time": round(time * SECOND), "data": {"token": token, **more}}
        for version, (name, time, token, more) in enumerate(events, 1)
    ]


ENQUEUED = ("job_enqueued", 0.5, None, {})
LEASED = ("job_leased", 2.5, 1, {"worker": "w1"})
RENEWED = ("lease_renewed", 4.5, 1, {})
COMPLETED = ("job_completed", 6.5, 1, {})


def done(story):
    """A job that was enqueued, leased, renewed and completed, all of it acknowledged."""
    return story().enqueued().leased(2, 1).ok("renew", 4, 5, token=1).ok("complete", 6, 7, token=1)


def test_what_was_acknowledged_is_there(story):
    """A log with each effect once agrees, with repeated requests too."""
    told = done(story).ok("complete", 8, 9, token=1, at=6.5).ok("enqueue", 8, 9, created=False, state="succeeded")
    assert differences(told.history(), log(ENQUEUED, LEASED, RENEWED, COMPLETED)) == []


def test_the_coordinator_may_end_leases(story):
    """An expiry is nobody's request, nor is a death by one."""
    told = story().enqueued().leased(2, 1, seconds=1).leased(5, 2, seconds=1)
    expired, leased = ("lease_expired", 3.6, 1, {}), ("job_leased", 5.5, 2, {"worker": "w2"})
    died = ("job_died", 6.6, 2, {"cause": "lease_expired"})
    assert differences(told.history(), log(ENQUEUED, LEASED, expired, leased, died)) == []
    by_failure = ("job_died", 6.6, 2, {"cause": "attempts_exhausted"})
    assert differences(told.history(), log(ENQUEUED, LEASED, expired, leased, by_failure)) == [
        "nobody asked for job_died with token 2, version 5"
    ]


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_a_lost_effect_is_found(story, missing):
    """Without its event, what was acknowledged is missing."""
    events = [ENQUEUED, LEASED, RENEWED, COMPLETED]
    name = ("enqueue", "lease", "renew", "complete")[missing]
    found = differences(done(story).history(), log(*events[:missing], *events[missing + 1 :]))
    assert any(each.startswith(f"{name}(") and each.endswith("is not in the log") for each in found)


def test_a_refused_effect_is_found(story):
    """What was refused, or never asked, is not in the log."""
    told = done(story).no("cancel", 8, 9, "illegal_transition")
    found = differences(told.history(), log(ENQUEUED, LEASED, RENEWED, COMPLETED, ("job_canceled", 8.5, None, {})))
    assert found == ["nobody asked for job_canceled, version 5"]


def test_a_lost_answer_explains_one_event(story):
    """A request whose answer was lost may be in the log once, and not before it was made."""
    told = done(story).lost("requeue", 8, 9)
    events = [ENQUEUED, LEASED, RENEWED, COMPLETED]
    assert differences(told.history(), log(*events, ("job_requeued", 30, None, {}))) == []
    twice = differences(told.history(), log(*events, ("job_requeued", 30, None, {}), ("job_requeued", 31, None, {})))
    assert len(twice) == 1
    early = [("job_requeued", 6.8, None, {})]
    assert differences(told.history(), log(*events, *early)) == ["nobody asked for job_requeued, version 5"]


def test_two_acknowledged_renewals_are_two_events(story):
    """An effect that every request has anew is not shared by two of them."""
    told = done(story).ok("renew", 4, 5, token=1, at=4.5)
    found = differences(told.history(), log(ENQUEUED, LEASED, RENEWED, COMPLETED))
    assert [each for each in found if each.endswith("has no event of its own in the log")] == found != []


def test_an_event_of_another_token_or_time_is_not_the_one(story):
    """The event must show the token that was sent and the time that was told."""
    for wrong in (("job_completed", 6.5, 2, {}), ("job_completed", 6.6, 1, {})):
        found = differences(done(story).history(), log(ENQUEUED, LEASED, RENEWED, wrong))
        assert len(found) == 2, found


def test_gaps_are_found(story):
    """A job's versions are gapless and its times do not go back."""
    events = log(ENQUEUED, LEASED, RENEWED, COMPLETED)
    events[3]["version"] = 5
    assert differences(done(story).history(), events) == ["versions are not gapless: [1, 2, 3, 5]"]
    found = differences(done(story).history(), log(ENQUEUED, LEASED, COMPLETED, RENEWED))
    assert len(found) == 1
    assert found[0].startswith("times go back")


def test_as_many_as_can_be_are_given_one():
    """Somebody who can have many leaves the one to who can have no other."""
    assert unmatched([["a", "b"], ["a"]]) == []
    assert unmatched([["a", "b"], ["b", "c"], ["a"], ["a"]]) == [3]
    assert unmatched([[]]) == [0]
