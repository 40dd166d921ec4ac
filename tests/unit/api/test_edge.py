"""The edge supplies what decisions cannot derive: ids, chance, salts, and who asks."""

from __future__ import annotations

import os
from uuid import UUID

import pytest
from aiohttp.test_utils import make_mocked_request

from eventjobs.api.edge import ACTOR_HEADER, Edge, Salts, actor_of
from eventjobs.api.faults import Faults
from eventjobs.domain.commands import ActorType
from eventjobs.domain.content import SALT_BYTES


def test_salts_are_never_given_out_twice():
    """Also across two stocks, and each is as long as it must be."""
    draws = []

    def random_bytes(number):
        draws.append(number)
        return os.urandom(number)

    salts = Salts(random_bytes)
    given_out = [salts.draw() for _ in range(3_000)]
    assert len(set(given_out)) == 3_000
    assert {len(salt) for salt in given_out} == {SALT_BYTES}
    assert len(draws) == 3


def test_ids_are_uuids_of_version_7_that_rise():
    """In canonical form."""
    edge = Edge(lambda: 0)
    ids = [edge.new_id() for _ in range(100)]
    assert ids == sorted(set(ids))
    assert all(str(UUID(each)) == each and UUID(each).version == 7 for each in ids)


def test_chance_lies_between_zero_and_one():
    """The roll a policy's jitter uses."""
    edge = Edge(lambda: 0)
    assert all(0 <= edge.roll() < 1 for _ in range(1_000))


def request(headers: dict[str, str]):
    return make_mocked_request("POST", "/jobs", headers=headers)


def test_the_header_says_who_asks():
    """1 to 255 printable ASCII characters are kept as they are."""
    for name in ("ada", " ~", "x" * 255):
        faults = Faults()
        assert actor_of(request({ACTOR_HEADER: name}), ActorType.PRODUCER, faults).id == name
        faults.refuse_if_any()


@pytest.mark.parametrize("name", ["", "x" * 256, "é", "a\tb"])
def test_a_header_that_names_nobody_is_a_fault(name, faults_of):
    """Its path is the header's name."""
    faults = Faults()
    actor_of(request({ACTOR_HEADER: name}), ActorType.OPERATOR, faults)
    assert set(faults_of(faults.refuse_if_any)) == {ACTOR_HEADER}
