"""A worker's request for jobs is understood, or every fault of it is told."""

from __future__ import annotations

import pytest

from eventjobs.api.lease_request import LeaseRequest, read_lease
from eventjobs.testing import builders
from eventjobs.testing.builders import NOW, seconds


@pytest.fixture
def lease(reading):
    """The request for a body."""
    return lambda body: reading(lambda members: read_lease(members, NOW), body)


def test_the_least_request_gets_every_default(lease):
    """A worker's name asks for one job of any queue and kind, for 30 seconds, at once."""
    assert lease({"worker": "w"}) == LeaseRequest(builders.lease(worker="w", duration=seconds(30)), None, None, 1, 0)


def test_a_full_request_is_taken_as_it_is(lease):
    """A name given twice counts once."""
    asked = {
        "worker": "hôte 1/é",
        "queues": ["b", "a", "b"],
        "kinds": ["k"],
        "max_jobs": 1000,
        "lease_seconds": 86_400,
        "wait_seconds": 0.5,
        "request_id": "r",
    }
    command = builders.lease(worker="hôte 1/é", duration=seconds(86_400), request_id="r")
    assert lease(asked) == LeaseRequest(command, ("b", "a"), ("k",), 1000, seconds(0.5))


def test_every_fault_is_told_at_once(lease, faults_of):
    """Items of lists have paths of their own."""
    asked = {
        "worker": "",
        "queues": ["ok", "not ok", 3, None],
        "kinds": [],
        "max_jobs": 0,
        "lease_seconds": 86_401,
        "wait_seconds": 60.1,
        "request_id": 5,
        "extra": [],
    }
    assert set(faults_of(lease, asked)) == {
        "worker", "queues[1]", "queues[2]", "queues[3]", "kinds", "max_jobs", "lease_seconds", "wait_seconds",
        "request_id", "extra",
    }  # fmt: skip
    assert faults_of(lease, {}) == {"worker": "is required"}


@pytest.mark.parametrize("field", ["queues", "kinds"])
def test_lists_of_names_are_bounded(lease, faults_of, field):
    """1 to 256 names; null is any."""
    assert getattr(lease({"worker": "w", field: [f"n{n}" for n in range(256)]}), field)[255] == "n255"
    assert getattr(lease({"worker": "w", field: None}), field) is None
    for wrong in ([], [f"n{n}" for n in range(257)], "abc", {"a": 1}, 5):
        assert set(faults_of(lease, {"worker": "w", field: wrong})) == {field}
