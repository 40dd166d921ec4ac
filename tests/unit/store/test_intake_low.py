"""Where the intake is read from: never above a place where a transaction that is under way may still put something."""

from __future__ import annotations

from eventjobs.store.postgres.intake import ALL_SECONDS, Low


class Clock:
    """Seconds, as they are set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_follows_when_all_that_had_begun_are_over():
    """Two looks: one that found rows, one that found nothing up to them when everybody of then had ended."""
    low = Low(Clock())
    low.saw(0, [1, 2, 3], oldest=10, first_to_come=12)
    assert low.number == 0
    low.saw(0, [], oldest=11, first_to_come=13)
    assert low.number == 0
    low.saw(0, [], oldest=12, first_to_come=13)
    assert low.number == 3


def test_what_is_still_there_keeps_it_down():
    """Whatever a look finds up to the row it waits at; rows above do not matter."""
    low = Low(Clock())
    low.saw(0, [5], oldest=10, first_to_come=12)
    low.saw(0, [4, 9], oldest=20, first_to_come=21)
    assert low.number == 0
    low.saw(0, [9], oldest=20, first_to_come=21)
    assert low.number == 5
    low.saw(5, [], oldest=21, first_to_come=21)
    assert low.number == 9


def test_a_pulse_that_found_nothing_counts_as_a_look_from_the_beginning():
    """One that found something does not: whoever reads it has to begin there too. Nor does one from further up."""
    clock = Clock()
    low = Low(clock)
    low.saw(0, [5], oldest=1, first_to_come=2)
    low.saw(0, [], oldest=2, first_to_come=2)
    clock.now += ALL_SECONDS
    low.passed(5, found=False)
    low.passed(0, found=True)
    assert low.number == 0
    low.passed(0, found=False)
    assert low.number == 5


def test_now_and_then_it_is_the_beginning():
    """Once in a while all is looked through, whatever is believed; then it goes on from where it was."""
    clock = Clock()
    low = Low(clock)
    low.saw(0, [5], oldest=1, first_to_come=2)
    low.saw(0, [], oldest=2, first_to_come=2)
    assert low.number == 5
    clock.now += ALL_SECONDS
    assert low.number == 0
    low.saw(5, [], oldest=2, first_to_come=2)
    assert low.number == 0
    low.saw(0, [], oldest=2, first_to_come=2)
    assert low.number == 5
