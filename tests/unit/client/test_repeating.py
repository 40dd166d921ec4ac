"""Repeating in virtual time: how long, how often, and what is said about it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from eventjobs import Retry
from eventjobs.client import Problem, Unavailable, Unreachable
from eventjobs.client.repeating import repeated
from eventjobs.testing import virtual_time


class Away:
    """A request that fails `failures` times, or always; `at` has the times it was sent."""

    def __init__(
        self, failures: int | None = None, error: Callable[[], Exception] = lambda: Unreachable("nobody there")
    ) -> None:
        self.failures, self.error = failures, error
        self.at: list[float] = []

    async def __call__(self) -> str:
        """One attempt."""
        self.at.append(asyncio.get_running_loop().time())
        if self.failures is None or len(self.at) <= self.failures:
            raise self.error()
        return "answer"


def test_the_time_is_the_bound():
    """A request that fails at once is repeated for all of 45 seconds, and not longer."""

    async def main():
        away, began = Away(), asyncio.get_running_loop().time()
        with pytest.raises(Unreachable, match="nobody there"):
            await repeated(away, Retry())
        assert asyncio.get_running_loop().time() - began == pytest.approx(45, abs=0.01)
        assert away.at[-1] - began == pytest.approx(45, abs=0.01)
        assert max(after - before for before, after in zip(away.at, away.at[1:], strict=False)) <= 5.2
        assert 10 < len(away.at) < 30

    with capture_logs():
        virtual_time.run(main())


def test_attempts_can_be_bounded_as_well():
    """Whichever ends first."""

    async def main():
        away = Away()
        with pytest.raises(Unreachable):
            await repeated(away, Retry(attempts=3))
        assert len(away.at) == 3

    with capture_logs():
        virtual_time.run(main())


def test_a_retry_after_past_the_time_is_not_waited_for():
    """The last attempt comes when the time is over, or would have been."""

    async def main():
        problem = Problem(code="overloaded", status=503)
        away, began = Away(error=lambda: Unavailable(problem, 600.0)), asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await repeated(away, Retry(seconds=10))
        assert asyncio.get_running_loop().time() - began <= 10.01

    with capture_logs():
        virtual_time.run(main())


def test_the_first_repeat_is_told_and_no_other():
    """One line says that the program waits, for what, and for how long."""

    async def main():
        assert await repeated(Away(failures=6), Retry()) == "answer"
        assert await repeated(Away(failures=0), Retry()) == "answer"

    with capture_logs() as lines:
        virtual_time.run(main())
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("request_repeated", "warning")
    assert (line["error"], line["trying_for_seconds"]) == ("nobody there", 45.0)
    assert None not in line.values()


def test_what_is_raised_in_the_end_has_a_short_traceback():
    """No machinery between the program and the error."""

    async def main():
        with pytest.raises(Unreachable) as caught:
            await repeated(Away(), Retry(seconds=1))
        assert len(traceback.format_exception(caught.value)) < 8

    with capture_logs():
        virtual_time.run(main())
