"""Exhaustive search of a small world: every state it can reach, breadth first, so that a first fault is a nearest one.

A world says how it starts and what can happen next. States are hashable values; two states that are equal have the
same future. A move that breaks a promise says which. `explore` visits every state; `run_dry` asks, of each, whether
all that can still go on comes to an end, and to a good one: the absence of stuck states.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from attrs import define, field, frozen

S = TypeVar("S", bound=Hashable)


class Move(NamedTuple, Generic[S]):
    """Something that can happen: what, the state after it, and the promise it breaks, if it breaks one."""

    what: tuple
    after: S
    broken: str | None = None


class World(Protocol[S]):
    """A world to be searched."""

    def start(self) -> S:
        """The state in which it begins."""

    def moves(self, state: S) -> Iterable[Move[S]]:
        """Everything that can happen next, faults among it."""

    def calm_moves(self, state: S) -> Iterable[Move[S]]:
        """Everything that can still happen once faults have ended. None leads back to where it came from."""

    def calm(self, state: S) -> S:
        """A state with the same calm ways on, one for many that differ in what only matters while there are faults."""

    def ended(self, state: S) -> bool:
        """Whether nothing is left to be done."""

    def tell(self, what: tuple) -> str:
        """A move in words, for people."""


@frozen
class CounterExample:
    """How a promise is broken: the steps from the start in words, and the promise."""

    steps: tuple[str, ...]
    broken: str

    def __str__(self) -> str:
        lines = [f"{number:>3}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([f"{self.broken}, after {len(self.steps)} steps:", *lines])


@frozen
class Explored(Generic[S]):
    """What a search saw. `came_from` has every state, in order of distance, with the one it was first reached from.

    `depth` is the greatest distance from the start; `counter_example` is a nearest one, or None.
    """

    came_from: dict[S, S | None]
    moves: int
    depth: int
    counter_example: CounterExample | None

    @property
    def states(self) -> int:
        return len(self.came_from)


def explore(world: World[S], states_max: int = 5_000_000) -> Explored[S]:
    """Visit every reachable state, or as far as the first broken promise. Raises MemoryError beyond `states_max`."""
    start = world.start()
    came_from: dict[S, S | None] = {start: None}
    moves = depth = 0
    frontier = [start]
    while frontier:
        beyond: list[S] = []
        for state in frontier:
            for move in world.moves(state):
                moves += 1
                if move.broken is not None:
                    steps = (*_steps_to(world, came_from, state), world.tell(move.what))
                    return Explored(came_from, moves, depth + 1, CounterExample(steps, move.broken))
                if move.after not in came_from:
                    came_from[move.after] = state
                    beyond.append(move.after)
        if len(came_from) > states_max:
            raise MemoryError(f"more than {states_max} states at a depth of {depth}")
        frontier = beyond
        depth += bool(beyond)
    return Explored(came_from, moves, depth, None)


def run_dry(world: World[S], explored: Explored[S]) -> tuple[int, CounterExample | None]:
    """Let faults end in every state that was explored: does every way on lead to an end?

    Counts the states met on the calm ways. A counter-example is a way that stops before all is done, that comes
    round to a state it has met, or that breaks a promise. It starts from a nearest state that has one.
    """
    calm = _Calm(world, world.calm)
    for state in explored.came_from:
        if calm.fault_from(state) is not None:
            moves, broken = _Calm(world, lambda each: each).fault_from(state)  # once more, in the state's own words
            steps = (*_steps_to(world, explored.came_from, state), "faults end", *map(world.tell, moves))
            return len(calm.sound), CounterExample(steps, broken)
    return len(calm.sound), None


@define
class _Calm(Generic[S]):
    """Depth-first search of the calm ways. `sound` are the states from which every way was seen to end well."""

    world: World[S]
    simplified: Callable[[S], S]
    sound: set[S] = field(factory=set)

    def fault_from(self, state: S) -> tuple[list[tuple], str] | None:
        """The moves of a bad way from the state and what is wrong with it; None when there is no such way."""
        state = self.simplified(state)
        if state in self.sound:
            return None
        trail: dict[S, Iterator[Move[S]]] = {}
        taken: list[tuple] = []
        while True:
            if state not in trail:
                moves = list(self.world.calm_moves(state))
                if not moves and not self.world.ended(state):
                    return taken, "nothing more can happen, and not all is done"
                trail[state] = iter(moves)
            move = next(trail[state], None)
            if move is None:
                self.sound.add(state)
                del trail[state]
                if not trail:
                    return None
                state = next(reversed(trail))
                taken.pop()
                continue
            after = self.simplified(move.after)
            if move.broken is not None or after in trail:
                return [*taken, move.what], move.broken or "this goes round for ever"
            if after not in self.sound:
                taken.append(move.what)
                state = after


def _steps_to(world: World[S], came_from: dict[S, S | None], state: S) -> list[str]:
    """The moves from the start to the state, in words, found again by making each of them once more."""
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        steps.append(next(world.tell(move.what) for move in world.moves(before) if move.after == state))
        state = before
    return steps[::-1]
