"""The smallest closed world around the production rules, for exhaustive search: one job, and anyone.

Any command, with any token that was ever granted or guessed, may come at any moment. It is the strongest adversary
that one job can have, and has few states. `eventjobs.testing.network_world` adds what is between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from eventjobs.testing.explore import Move
from eventjobs.testing.promises import ENDED, broken_promise
from eventjobs.testing.tracked_job import WITH_TOKEN, WITHOUT_TOKEN, Ask, Rules, Track, later, renumbered, told


class Step(NamedTuple):
    """What a command does to a numbered track: the track after it, whether it was refused, the promise it breaks."""

    track: int
    refused: bool
    broken: str | None


class Tracks:
    """Tracks by number. Each command on each track is put through the rules once, and its outcome kept."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._tracks: list[Track] = []
        self._numbers: dict[Track, int] = {}
        self._steps: dict[tuple[int, Ask], Step] = {}
        self._renumbered: dict[tuple[int, frozenset[int]], tuple[int, dict[int, int]]] = {}
        self._later: dict[int, int] = {}
        self.first = self._number(rules.enqueued())

    def __getitem__(self, number: int) -> Track:
        return self._tracks[number]

    def obey(self, number: int, ask: Ask) -> Step:
        step = self._steps.get((number, ask))
        if step is None:
            track = self._tracks[number]
            outcome = self._rules.obey(track, ask)
            broken = broken_promise(track, ask, outcome)
            step = Step(self._number(outcome.track), outcome.refused is not None, broken)
            self._steps[number, ask] = step
        return step

    def later(self, number: int) -> int:
        """The track one tick later."""
        if number not in self._later:
            self._later[number] = self._number(later(self._tracks[number]))
        return self._later[number]

    def told(self, number: int, grant: int) -> int:
        """The track once a worker heard that its success is on record."""
        return self._number(told(self._tracks[number], grant))

    def renumbered(self, number: int, shown: frozenset[int]) -> tuple[int, dict[int, int]]:
        """The track without the grants that are neither shown nor the newest, and the new names of those left."""
        found = self._renumbered.get((number, shown))
        if found is None:
            track = self._tracks[number]
            kept = sorted({*shown, *track.granted[-1:]})
            renamed = {grant: name for name, grant in enumerate(kept, 1)}
            found = self._renumbered[number, shown] = self._number(renumbered(track, renamed)), renamed
        return found

    def _number(self, track: Track) -> int:
        number = self._numbers.setdefault(track, len(self._tracks))
        if number == len(self._tracks):
            self._tracks.append(track)
        return number


class AnyoneWorld:
    """One job; whoever likes asks whatever they like, whenever they like. A state is a track's number."""

    def __init__(self, rules: Rules, tokens_max: int) -> None:
        """After `tokens_max` leases the job is not leased again, except in the calm."""
        self._tracks, self._tokens_max = Tracks(rules), tokens_max

    def start(self) -> int:
        return self._tracks.first

    def moves(self, state: int) -> Iterator[Move[int]]:
        yield Move(("tick",), self._tracks.later(state))
        granted = self._tracks[state].granted
        for name in WITHOUT_TOKEN:
            if name != "lease" or len(granted) < self._tokens_max:
                yield self._move(state, Ask(name))
        grants = [(token, grant) for grant, token in enumerate(granted, 1)]
        guesses = [(token, 0) for token in range(self._tokens_max + 2) if token not in granted]
        for token, grant in grants + guesses:
            for name in WITH_TOKEN:
                yield self._move(state, Ask(name, token, grant))

    def calm_moves(self, state: int) -> Iterator[Move[int]]:
        """Time passes, leases run out, workers take the job and do or do not finish it."""
        granted = self._tracks[state].granted
        asks = [Ask("lease"), Ask("expire")]
        if granted:
            asks += [Ask(name, granted[-1], len(granted)) for name in ("complete", "fail")]
        for move in [Move(("tick",), self._tracks.later(state)), *(self._move(state, ask) for ask in asks)]:
            if move.after != state or move.broken:
                yield move

    def calm(self, state: int) -> int:
        return state

    def ended(self, state: int) -> bool:
        return self._tracks[state].job.state in ENDED

    def tell(self, what: tuple) -> str:
        if what[0] == "tick":
            return "time passes"
        name, token, grant = what
        shown = f" with token {token}" + ("" if grant else ", a guess") if name in WITH_TOKEN else ""
        return f"{name} arrives{shown}"

    def _move(self, state: int, ask: Ask) -> Move[int]:
        step = self._tracks.obey(state, ask)
        return Move(ask, step.track, step.broken)
