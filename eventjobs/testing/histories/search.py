"""The search for a legal order of one job's operations.

Wing and Gong's, as Lowe made it fast: operations are put in order one by one. Next may be any whose call is not after
the return of another that is still to come; the answer that was recorded must be one that the table allows there.
Between two operations the rescuer may end a lease that ran out. What is still to do after the same operations in
the same standing is the same, so each such pair is looked at once. An operation that fits and leaves the job as it is
known is put in at once: wherever else it fits, all the rest fits behind it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from eventjobs.testing.histories.operations import Answer, Lost, Operation, Refusal
from eventjobs.testing.histories.standing import NEVER, Span, Standing, seen
from eventjobs.testing.histories.table import Moment, expiries, outcomes

NODES_MAX = 500_000
"""Pairs looked at before the search gives up."""
ENDS_TOLD = 100
"""Of the ways to come as far as can be, so many are asked for why they go no further."""
NOWHEN: Span = (1, 0)


class Undecided(AssertionError):
    """The search was given up: whether the history has a legal order is not known."""


@frozen
class Step:
    """One place of an order: an operation, or None where a lease ran out; and how the job stands after it."""

    operation: Operation | None
    after: Standing | None


@frozen
class Finding:
    """What a search found. `order` is a legal order, or one of the longest there are when `legal` is false.

    Then `next` are the answered operations that could be the next of such orders by their times, each with why it does
    not fit; `used` are all those that were put in somewhere. `nodes` says how much was looked at.
    """

    legal: bool
    order: tuple[Step, ...]
    next: tuple[tuple[Operation, str], ...]
    used: frozenset[Operation]
    nodes: int


_Path = tuple["_Path | None", int, Standing | None]
"""A step behind a path: the operation's number, or EXPIRY, and the standing after it."""
_EXPIRY = -1


@define(eq=False)
class _Node:
    done: int
    standing: Standing | None
    path: _Path | None


@define(eq=False)
class _Search:
    """The search over one history. `done` sets are bits of an integer, by the operations' numbers."""

    operations: list[Operation]
    tolerance: int
    jobs: list[dict[str, Any]]
    answered: int = field(init=False)
    by_return: list[int] = field(init=False)
    used: int = 0

    def __attrs_post_init__(self) -> None:
        numbers = [number for number, each in enumerate(self.operations) if each.answered]
        self.answered = sum(1 << number for number in numbers)
        self.by_return = sorted(numbers, key=lambda number: self.operations[number].returned)

    def limit(self, done: int) -> int:
        """The first return still to come: what is put in order now happens before it."""
        for number in self.by_return:
            if not done >> number & 1:
                return self.operations[number].returned
        return NEVER

    def next(self, done: int, limit: int) -> Iterator[int]:
        """The operations that may come next by their times."""
        for number, operation in enumerate(self.operations):
            if operation.called > limit:
                return
            if not done >> number & 1:
                yield number

    def fits(self, standing: Standing | None, number: int, limit: int) -> tuple[list[Standing | None], list[str]]:
        """The standings after the operation, where its outcome fits, and why it does not in the other cases."""
        operation = self.operations[number]
        fitting, reasons = [], []
        for outcome in outcomes(standing, operation.ask, self.moment(operation, limit), self.jobs):
            match operation.outcome:
                case Lost():
                    if not isinstance(outcome, str) and outcome != standing:
                        fitting.append(outcome)
                case Refusal(code):
                    if outcome == code:
                        fitting.append(standing)
                    else:
                        reasons.append(f"it is {outcome}" if isinstance(outcome, str) else "it must be done")
                case Answer():
                    after = self._shown(standing, outcome, operation.outcome)
                    (reasons if isinstance(after, str) else fitting).append(after)
        return fitting, reasons or ["its time does not fit"]

    def _shown(self, before: Standing | None, outcome: Standing | str, answer: Answer) -> Standing | str:
        if isinstance(outcome, str):
            return f"it is {outcome}"
        if answer.created is not None and answer.created is not (before is None):
            return "the job is there" if answer.created else "no job is there"
        return seen(outcome, answer.document, self.jobs[outcome.job])

    def moment(self, operation: Operation, limit: int) -> Moment:
        """When the operation is decided: between its call and its return, or what must come after it."""
        returned = operation.returned if operation.answered else limit
        now = (operation.called - self.tolerance, returned + self.tolerance)
        document = operation.outcome.document if isinstance(operation.outcome, Answer) else {}
        time = document.get("updated_at")
        if time is None:
            return Moment(now, now)
        return Moment(now, (time, time) if now[0] <= time <= now[1] else NOWHEN)

    def expand(self, node: _Node) -> list[_Node]:
        """The nodes after this one, the most promising last."""
        limit = self.limit(node.done)
        known, lost = [], []
        for number in self.next(node.done, limit):
            standings, _ = self.fits(node.standing, number, limit)
            done = node.done | 1 << number
            after = [_Node(done, standing, (node.path, number, standing)) for standing in standings]
            if not after:
                continue
            self.used |= 1 << number
            if not self.operations[number].answered:
                lost += after
                continue
            if any(each.standing == node.standing for each in after):
                return [each for each in after if each.standing == node.standing]
            known += [(self.operations[number].returned, each) for each in after]
        known.sort(key=lambda pair: -pair[0])
        ended = expiries(node.standing, limit + self.tolerance)
        ends = [_Node(node.done, standing, (node.path, _EXPIRY, standing)) for standing in ended]
        return lost + ends + [each for _, each in known]

    def run(self, nodes_max: int) -> Finding:
        """Look at one node after another, depth first."""
        stack = [_Node(0, None, None)]
        visited: set[tuple[int, Standing | None]] = set()
        best, most = [], -1
        while stack:
            node = stack.pop()
            if (node.done, node.standing) in visited:
                continue
            visited.add((node.done, node.standing))
            if len(visited) > nodes_max:
                raise Undecided(f"no order among {nodes_max} looked at, {len(self.operations)} operations")
            count = (node.done & self.answered).bit_count()
            if count > most:
                best, most = [], count
            if count == most:
                best.append(node)
            if count == len(self.by_return):
                return self._finding([node], len(visited), legal=True)
            stack += self.expand(node)
        return self._finding(best, len(visited), legal=False)

    def _finding(self, ends: list[_Node], nodes: int, *, legal: bool) -> Finding:
        steps, path = [], ends[0].path
        while path is not None:
            path, number, after = path
            steps.append(Step(None if number == _EXPIRY else self.operations[number], after))
        blocked: dict[int, dict[str, None]] = {}
        for end in ends[:ENDS_TOLD] if not legal else ():
            limit = self.limit(end.done)
            for number in self.next(end.done, limit):
                if self.operations[number].answered:
                    _, reasons = self.fits(end.standing, number, limit)
                    blocked.setdefault(number, {}).update(dict.fromkeys(reasons))
        following = tuple((self.operations[number], "; ".join(reasons)) for number, reasons in blocked.items())
        used = frozenset(each for number, each in enumerate(self.operations) if self.used >> number & 1)
        return Finding(legal, tuple(reversed(steps)), following, used, nodes)


def search(operations: Sequence[Operation], tolerance: int = 0, nodes_max: int = NODES_MAX) -> Finding:
    """Look for a legal order of the operations on one job, all of those that were answered among them.

    `tolerance` is by how many microseconds the clocks of recorder and coordinator may differ. Raises Undecided when
    more than `nodes_max` pairs would have to be looked at.
    """
    jobs: list[dict[str, Any]] = []
    for operation in operations:
        if operation.ask.job is not None and operation.ask.job not in jobs:
            jobs.append(operation.ask.job)
    return _Search(sorted(operations, key=lambda each: each.called), tolerance, jobs).run(nodes_max)
