"""Settings are small, comparable, and refuse what makes no sense; the client tells mistakes before it connects."""

from __future__ import annotations

import pytest
from attrs.exceptions import FrozenInstanceError

from eventjobs import BlockingClient, Client, Retry, Timeouts
from eventjobs import client as part
from eventjobs.client import InvalidValue


def test_settings_are_values():
    """Equal when they say the same, and frozen."""
    assert Retry() == Retry(attempts=None, seconds=45.0)
    assert Retry.never() == Retry(attempts=1)
    assert (Retry.always().attempts, Retry.always().seconds) == (None, None)
    assert Timeouts(answer_seconds=1) != Timeouts()
    with pytest.raises(FrozenInstanceError):
        Retry().attempts = 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(attempts=0),
        lambda: Retry(seconds=0),
        lambda: Retry(longest_wait_seconds=-1),
        lambda: Timeouts(connect_seconds=0),
        lambda: Timeouts(answer_seconds=-1),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    """When they are made."""
    with pytest.raises(ValueError, match="must be"):
        make()


@pytest.mark.parametrize("kind", [Client, BlockingClient])
@pytest.mark.parametrize("actor", ["", "line\nbreak", "é", "x" * 256])
def test_a_name_that_no_header_can_carry_is_refused(kind, actor):
    """It could break the request."""
    with pytest.raises(InvalidValue, match="actor"):
        kind(actor=actor)


@pytest.mark.parametrize("kind", [Client, BlockingClient])
def test_a_wrong_address_is_refused(kind):
    """At once, and with an example of a right one."""
    with pytest.raises(InvalidValue, match="such as http://"):
        kind("localhost:8484")


async def test_a_closed_client_says_so():
    """It is a mistake in the program, and no outage."""
    async with Client("http://127.0.0.1:1") as client:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        await client.stats()


def test_everything_the_client_exports_is_there():
    """Sorted, so that it can be found."""
    assert part.__all__ == sorted(part.__all__)
    assert all(hasattr(part, name) for name in part.__all__)
