"""A history without a legal order, cut down to what makes it so, and told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from eventjobs.testing.histories.operations import History, Lost, Operation
from eventjobs.testing.histories.search import NODES_MAX, Finding, Undecided, search
from eventjobs.testing.histories.standing import Standing

LATER = "its answer came later"
OPERATIONS_TOLD = 30
STEPS_TOLD = 12
"""So many of the operations and of the longest legal order are told, the last ones."""

Illegal = Callable[[Sequence[Operation]], bool]


class IllegalHistory(AssertionError):
    """A job's history has no legal order. The text is its shortest part that has none, and what goes wrong."""


def check(history: History, tolerance: int = 0, nodes_max: int = NODES_MAX) -> Finding:
    """The finding of the search when the history has a legal order. Raises IllegalHistory, or Undecided.

    `tolerance` is in microseconds.
    """
    finding = search(history.operations, tolerance, nodes_max)
    if finding.legal:
        return finding

    def illegal(some: Sequence[Operation]) -> bool:
        try:
            return not search(some, tolerance, nodes_max).legal
        except Undecided:
            return False

    part = first_illegal_part(history.operations, illegal)
    core = without_needless_claims(part, illegal)
    finding = search(core, tolerance, nodes_max)
    raise IllegalHistory(tell(history, [each for each in core if each.answered or each in finding.used], finding))


def first_illegal_part(operations: Sequence[Operation], illegal: Illegal) -> list[Operation]:
    """What was known at the first return at which no order was legal any more."""
    returns = sorted(each.returned for each in operations if each.answered)
    first, last = 0, len(returns) - 1
    while first < last:
        middle = (first + last) // 2
        if illegal(_known_at(operations, returns[middle])):
            last = middle
        else:
            first = middle + 1
    return _known_at(operations, returns[first])


def without_needless_claims(operations: Sequence[Operation], illegal: Illegal) -> list[Operation]:
    """An illegal part of a history with as few looks and refusals as can be: without any of them it is legal."""
    core = list(operations)
    size = len(core)
    while size:
        for start in reversed(range(0, len(core), size)):
            fewer = core[:start] + [each for each in core[start : start + size] if each.changes] + core[start + size :]
            if len(fewer) < len(core) and illegal(fewer):
                core = fewer
        size //= 2
    return core


def _known_at(operations: Sequence[Operation], time: int) -> list[Operation]:
    """What was called by then. What had not returned may have had its effect, or not yet."""
    called = [each for each in sorted(operations, key=lambda each: each.called) if each.called <= time]
    known = [each if each.returned <= time else evolve(each, outcome=Lost(LATER)) for each in called]
    return [each for each in known if each.answered or each.changes]


def tell(history: History, core: Sequence[Operation], finding: Finding) -> str:
    """The text. `core` is the shortest illegal part, `finding` the search for its order.

    Times are seconds since the first call.
    """
    start = min(each.called for each in core)
    lines = [
        f"the history of job {history.key!r} ({', '.join(history.job_ids) or 'no id is known'}) has no legal order.",
        f"These {len(core)} of its {len(history.operations)} operations have none (called, returned, client):",
    ]
    if len(core) > OPERATIONS_TOLD:
        lines.append(f"  ... {len(core) - OPERATIONS_TOLD} earlier ones")
    lines += [f"  {_line(operation, start)}" for operation in core[-OPERATIONS_TOLD:]]
    lines.append(f"The longest legal order of these has {len(finding.order)} steps and ends:")
    for step in finding.order[-STEPS_TOLD:]:
        what = "the lease runs out" if step.operation is None else f"{step.operation.client}: {step.operation.ask}"
        lines.append(f"  {what} => {_stands(step.after)}")
    lines.append("None of these can be the next:")
    lines += [f"  {operation.client}: {operation.ask} -> {operation.outcome}: {why}" for operation, why in finding.next]
    return "\n".join(lines)


def _line(operation: Operation, start: int) -> str:
    called, returned = ((time - start) / 1_000_000 for time in (operation.called, operation.returned))
    return f"{called:9.4f} {returned:9.4f}  {operation.client}: {operation.ask} -> {operation.outcome}"


def _stands(standing: Standing | None) -> str:
    if standing is None:
        return "no job"
    return f"{standing.state}, attempts {standing.attempts}, token {standing.token}"
