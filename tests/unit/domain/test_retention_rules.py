"""Rules of retention: what a text says, which rule holds for a job, and every fault of a text at once."""

from __future__ import annotations

import pytest

from eventjobs.domain.limits import DAY_SECONDS, MICROSECONDS
from eventjobs.domain.retention import BadRules, parse_rules

DAY = DAY_SECONDS * MICROSECONDS


@pytest.mark.parametrize(
    ("queue", "kind", "days"),
    [("web", "x", 3), ("mail", "x", 2), ("web", "receipt", 1), ("mail", "receipt", 9), ("audit", "x", None)],
)
def test_the_most_specific_rule_holds(queue, kind, days):
    """Queue and kind, then kind, then queue, then neither; never is an answer like any other."""
    rules = parse_rules(
        "succeeded queue=audit never, succeeded 3d, succeeded kind=receipt 24h,"
        "succeeded queue=mail 2d, succeeded kind=receipt queue=mail 9d"
    )
    rule = rules.about("succeeded", queue, kind)
    assert (None if rule is None else rule.age) == (None if days is None else days * DAY)


def test_without_a_rule_nothing_goes():
    """What no rule is about is kept for ever."""
    assert parse_rules(" ").rules == ()
    assert parse_rules("succeeded 3d").about("dead", "q", "k") is None


def test_every_fault_is_named_with_its_place():
    """A text that is wrong in many ways says so at once."""
    with pytest.raises(BadRules) as caught:
        parse_rules(
            "succeeded 3d, done 3d, dead, dead que=x 3 days, succeeded 4d, keys 3x, payloads 200000d, canceled \u0663d"
        )
    assert [number for number, _ in caught.value.faults] == [2, 3, 4, 4, 4, 5, 6, 7, 8]
