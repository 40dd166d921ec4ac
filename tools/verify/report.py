"""What a verification found: checks, each with its outcome, what is wrong, and what can be said all the same."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from attrs import define, field, frozen

FAULTS_SHOWN_MAX = 20
"""Faults of one check that are told one by one; of more, only the number is."""


def path_text(path: Path) -> str:
    """A path as text that any output takes; bytes of its name that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def counted(number: int, noun: str) -> str:
    """1 row, 2,000 rows."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Outcome(StrEnum):
    """How a check ended."""

    SOUND = "sound"
    DAMAGED = "damaged"
    UNCHECKED = "unchecked"
    """It was not, or could not be, done to the end. That is no damage, but nothing is known either."""


@frozen
class Fault:
    """Something wrong: what, where (the position in the log, if it has one), and of what sort, as a stable word."""

    sort: str
    text: str
    position: int | None = None


@define
class Check:
    """One thing that was looked at. `facts` says how much of what was found in order."""

    name: str
    facts: str = ""
    faults: list[Fault] = field(factory=list)
    faults_total: int = 0
    unchecked: str | None = None
    """Why not all of it could be looked at."""

    def fault(self, sort: str, text: str, position: int | None = None) -> None:
        """Note something wrong."""
        self.faults_total += 1
        if len(self.faults) < FAULTS_SHOWN_MAX:
            self.faults.append(Fault(sort, text, position))

    def leave(self, reason: str) -> None:
        """Note that not all of it could be looked at, and why; the first reason stands."""
        self.unchecked = self.unchecked or reason

    @property
    def outcome(self) -> Outcome:
        if self.faults_total:
            return Outcome.DAMAGED
        return Outcome.SOUND if self.unchecked is None else Outcome.UNCHECKED

    def document(self) -> dict[str, object]:
        faults = [{"sort": each.sort, "position": each.position, "text": each.text} for each in self.faults]
        return {
            "name": self.name,
            "outcome": self.outcome.value,
            "facts": self.facts,
            "unchecked": self.unchecked,
            "faults_total": self.faults_total,
            "faults": faults,
        }


@define
class Report:
    """The whole of a verification. `said` are sentences about what holds beside, or in spite of, what was found."""

    store: str
    checks: list[Check] = field(factory=list)
    said: list[str] = field(factory=list)
    size: int | None = None
    root: str | None = None

    def check(self, name: str) -> Check:
        """A new check, the next in the report."""
        self.checks.append(Check(name))
        return self.checks[-1]

    @property
    def outcome(self) -> Outcome:
        outcomes = {check.outcome for check in self.checks}
        return next(each for each in (Outcome.DAMAGED, Outcome.UNCHECKED, Outcome.SOUND) if each in outcomes)

    @property
    def first_bad(self) -> int | None:
        """The lowest position that something is wrong with; None when nothing wrong has one."""
        positions = [each.position for check in self.checks for each in check.faults if each.position is not None]
        return min(positions, default=None)

    def tell_what_is_before(self) -> None:
        """Say how much of the log comes before the first bad record."""
        first = self.first_bad
        if first is not None and first > 1:
            self.said.insert(0, f"Before position {first:,} every record passes every check that was made.")

    def document(self) -> dict[str, object]:
        """The report as JSON has it."""
        return {
            "store": self.store,
            "outcome": self.outcome.value,
            "size": self.size,
            "root": self.root,
            "first_bad_position": self.first_bad,
            "checks": [check.document() for check in self.checks],
            "said": self.said,
        }
