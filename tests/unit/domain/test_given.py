"""The given/when/then helper must notice when the outcome is another."""

from __future__ import annotations

import pytest

from eventjobs.domain.rejections import Code
from eventjobs.testing import builders as b
from eventjobs.testing.given import UNCHANGED, given


@pytest.mark.parametrize("wrong", [UNCHANGED, Code.LEASE_EXPIRED, b.completed(token=2), b.canceled()], ids=str)
def test_a_wrong_expectation_fails(wrong):
    """An event, a rejection or nothing, when another event was decided."""
    with pytest.raises(AssertionError, match="but met"):
        given(b.enqueued(), b.leased()).when(b.complete()).then(wrong)


@pytest.mark.parametrize("wrong", [UNCHANGED, Code.LEASE_EXPIRED, b.completed()], ids=str)
def test_an_unexpected_rejection_fails(wrong):
    """A rejection is neither an event, nor nothing, nor another rejection."""
    with pytest.raises(AssertionError, match="stale_token"):
        given(b.enqueued()).when(b.complete()).then(wrong)


def test_ids_sort_as_their_numbers():
    """Builders' ids are canonical UUIDv7 text in the order of their numbers."""
    ids = [b.an_id(number) for number in (1, 2, 16, 300, 70_000)]
    assert ids == sorted(ids) and all(len(text) == 36 and text[14] == "7" for text in ids)
