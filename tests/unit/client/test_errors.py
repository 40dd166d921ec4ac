"""Refusals become errors that can be told apart and say what is wrong."""

from __future__ import annotations

import pickle

import pytest

from eventjobs import client
from eventjobs.client import EventjobsError, Fault, Problem, Refused, errors
from eventjobs.client.errors import refusal


@pytest.mark.parametrize(
    ("status", "code", "kind", "parent"),
    [
        (400, "malformed_json", client.InvalidRequest, client.Refused),
        (401, "unauthorized", client.AccessDenied, client.Refused),
        (403, "forbidden", client.AccessDenied, client.Refused),
        (404, "not_found", client.NotFound, client.Refused),
        (404, "job_not_found", client.JobNotFound, client.NotFound),
        (405, "method_not_allowed", client.NotFound, client.Refused),
        (409, "stale_token", client.StaleToken, client.Conflict),
        (409, "lease_expired", client.LeaseExpired, client.Conflict),
        (409, "illegal_transition", client.IllegalTransition, client.Conflict),
        (409, "idempotency_key_reused", client.IdempotencyKeyReused, client.Conflict),
        (409, "of_a_later_version", client.Conflict, client.Refused),
        (413, "too_large", client.TooLarge, client.InvalidRequest),
        (415, "unsupported_media_type", client.InvalidRequest, client.Refused),
        (422, "invalid_request", client.InvalidRequest, client.Refused),
        (500, "internal", client.Refused, client.EventjobsError),
        (503, "overloaded", client.Unavailable, client.Refused),
        (503, "shutting_down", client.Unavailable, client.Refused),
        (507, "storage_full", client.StorageFull, client.Refused),
    ],
)
def test_each_refusal_has_its_class(status, code, kind, parent):
    """By its code where that says more, else by its status; the problem stays at hand."""
    error = refusal(Problem(code=code, status=status, detail="why"))
    assert type(error) is kind
    assert issubclass(kind, parent)
    assert (error.code, error.status, error.detail, error.errors, error.job) == (code, status, "why", [], None)
    assert str(error) == f"{code}: why"


def test_an_invalid_request_names_every_fault():
    """With its path, or without when it is the whole body."""
    faults = [Fault("jobs[1].kind", "is missing"), Fault("", "is not an object")]
    error = refusal(Problem(code="invalid_request", status=422, detail="2 faults", errors=faults))
    assert str(error) == "invalid_request: jobs[1].kind: is missing; is not an object"


def test_errors_can_be_pickled():
    """Process pools and task queues carry errors about."""
    error = pickle.loads(pickle.dumps(refusal(Problem(code="overloaded", status=503), 2.0)))
    assert (type(error), error.code) == (client.Unavailable, "overloaded")


def test_the_tree_in_the_module_is_the_tree():
    """Every class is drawn, under its parent."""
    drawn: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        if "──" in line or line.strip() == "EventjobsError":
            place = len(line) - len(line.lstrip(" │├└─"))
            name = line.lstrip(" │├└─").split()[0]
            while above and above[-1][0] >= place:
                above.pop()
            drawn[name] = above[-1][1] if above else "Exception"
            above.append((place, name))
    real = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, EventjobsError)
    }
    assert drawn == real
    assert Refused.__name__ in drawn
