"""Query parameters are read like the fields of a body."""

from __future__ import annotations

from aiohttp.test_utils import make_mocked_request

from eventjobs.api.faults import Faults
from eventjobs.api.query import Query
from eventjobs.api.values import POSITION, digits, name, one_of
from eventjobs.domain.job import State


def read(query: str, faults: Faults) -> tuple:
    parameters = Query(make_mocked_request("GET", f"/jobs{query}"), faults)
    found = (
        parameters.read("state", one_of(State)),
        parameters.read("kind", name),
        parameters.read("limit", digits(1, 1000), 100),
        parameters.read("after", POSITION, 0),
    )
    parameters.end()
    return found


def test_parameters_have_values_or_defaults():
    """Escapes are undone."""
    faults = Faults()
    assert read("", faults) == (None, None, 100, 0)
    assert read("?state=dead&kind=a%3Ab&limit=1000&after=9223372036854775807", faults) == (
        State.DEAD, "a:b", 1000, 2**63 - 1,
    )  # fmt: skip
    faults.refuse_if_any()


def test_every_fault_is_told_at_once(faults_of):
    """Wrong, unknown and doubled ones, each under its name."""
    faults = Faults()
    read("?state=scheduled&kind=&limit=1e2&after=-1&after=2&color=red&", faults)
    assert set(faults_of(faults.refuse_if_any)) == {"state", "kind", "limit", "after", "color"}


def test_integers_are_plain_digits(faults_of):
    """No sign, space, fraction, other script's digits, or more than fits."""
    for value in ("", "0", "1001", "+1", "-1", "1.0", "%201", "1_0", "%D9%A1", "9" * 5000):
        faults = Faults()
        read(f"?limit={value}", faults)
        assert set(faults_of(faults.refuse_if_any)) == {"limit"}, value
