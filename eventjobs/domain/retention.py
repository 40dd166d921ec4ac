"""Rules of retention: how long what is left of a finished job is kept. Without rules everything is kept for ever.

A rule's text is what it is about, the jobs it is about, and how long: `succeeded queue=mail kind=receipt 1d`. Rules are
separated by commas. `succeeded`, `dead` and `canceled` say when a job leaves the live store, `payloads` when its
contents (payload, result, errors) are erased, `keys` when its idempotency key is forgotten; each is counted from the
job's end. A duration is a number and one of s, m, h, d, w, or the word `never`. Of several rules about the same
thing the most specific holds: one that names queue and kind, then one that names the kind, then the queue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from eventjobs.domain.durations import age_of
from eventjobs.domain.limits import NAME_LENGTH_MAX

SUBJECTS = ("succeeded", "dead", "canceled", "payloads", "keys")

_NAME = re.compile(rf"[A-Za-z0-9._:/@-]{{1,{NAME_LENGTH_MAX}}}").fullmatch


class BadRules(ValueError):
    """A text that is no list of rules. `faults` are (number of the rule from 1, what is wrong with it)."""

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__("; ".join(f"rule {number}: {fault}" for number, fault in faults))
        self.faults = list(faults)


@frozen
class Rule:
    """`age` is in microseconds, None for never. `queue` and `kind` None stand for any."""

    subject: str
    queue: str | None
    kind: str | None
    age: int | None
    text: str


@frozen
class Rules:
    """What holds for a job. Made by `parse_rules`."""

    rules: tuple[Rule, ...] = ()

    def about(self, subject: str, queue: str, kind: str) -> Rule | None:
        """The rule that says when to act; None when there is none, or it says never."""
        fitting = [rule for rule in self.rules if rule.subject == subject and _fits(rule, queue, kind)]
        best = max(fitting, key=lambda rule: (rule.kind is not None, rule.queue is not None), default=None)
        return None if best is None or best.age is None else best


NO_RULES = Rules()


def _fits(rule: Rule, queue: str, kind: str) -> bool:
    return rule.queue in (None, queue) and rule.kind in (None, kind)


def parse_rules(text: str) -> Rules:
    """The rules of a text; an empty one has none. Raises BadRules with all that is wrong."""
    rules: list[Rule] = []
    faults: list[tuple[int, str]] = []
    for number, part in enumerate(text.split(",") if text.strip() else (), 1):
        rule = _parse(part.split(), number, faults)
        if any((rule.subject, rule.queue, rule.kind) == (one.subject, one.queue, one.kind) for one in rules):
            faults.append((number, "there is one about the same jobs before it"))
        rules.append(rule)
    if faults:
        raise BadRules(faults)
    return Rules(tuple(rules))


def _parse(words: list[str], number: int, faults: list[tuple[int, str]]) -> Rule:
    if len(words) < 2:
        faults.append((number, f"{' '.join(words)!r} is no rule such as 'succeeded 3d'"))
        return Rule(f"rule {number}", None, None, None, "")
    if words[0] not in SUBJECTS:
        faults.append((number, f"{words[0]!r} is none of {', '.join(SUBJECTS)}"))
    names: dict[str, str] = {}
    for word in words[1:-1]:
        field, _, name = word.partition("=")
        if field not in ("queue", "kind") or field in names or not _NAME(name):
            faults.append((number, f"{word!r} is no queue=NAME or kind=NAME, each at most once"))
        names[field] = name
    return Rule(words[0], names.get("queue"), names.get("kind"), _age(words[-1], number, faults), " ".join(words))


def _age(word: str, number: int, faults: list[tuple[int, str]]) -> int | None:
    if word == "never":
        return None
    age = age_of(word)
    if age is None:
        faults.append((number, f"{word!r} is no duration such as 12h or 30d, of at most 100 years, and not 'never'"))
    return age
