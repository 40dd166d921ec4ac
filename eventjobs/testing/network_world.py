"""A small closed world of workers and jobs under the production rules, with a network between, for exhaustive search.

Workers keep to the protocol: they act on what they believe. Requests are delayed, doubled, overtaken and lost,
answers are lost, workers crash, time passes at any moment, and operators cancel and requeue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attrs import frozen

from eventjobs.testing.explore import Move
from eventjobs.testing.promises import ENDED
from eventjobs.testing.small_world import Tracks
from eventjobs.testing.tracked_job import Ask, Rules

SETTLING = ("complete", "fail", "give up", "release")
"""What ends a worker's lease."""
OPERATORS = ("cancel", "requeue", "enqueue")


@frozen
class Scope:
    """How large a NetworkWorld is. `tokens` bounds the leases of each job while there are faults, `in_flight` the
    requests that are under way at a time."""

    workers: int = 2
    jobs: int = 1
    tokens: int = 3
    in_flight: int = 2


class Belief(NamedTuple):
    """What a worker believes to have: a job (its number), under a token. `chosen` is how it wants to end its lease."""

    job: int
    token: int
    grant: int
    chosen: str


class Request(NamedTuple):
    """A worker's request under way to a job."""

    job: int
    ask: Ask


class State(NamedTuple):
    """Jobs as numbers of tracks; what busy workers believe (the others are idle); requests under way. Both sorted."""

    tracks: tuple[int, ...]
    busy: tuple[Belief, ...]
    flight: tuple[Request, ...]


class NetworkWorld:
    """Workers who keep to the protocol, on a network that does not."""

    def __init__(self, rules: Rules, scope: Scope) -> None:
        self._tracks, self._scope = Tracks(rules), scope

    def start(self) -> State:
        return State((self._tracks.first,) * self._scope.jobs, (), ())

    def moves(self, state: State) -> Iterator[Move[State]]:
        yield self._tick(state)
        for job, track in enumerate(state.tracks):
            yield self._without_worker(state, job, "expire")
            for name in OPERATORS:
                yield self._without_worker(state, job, name)
            if len(state.busy) < self._scope.workers and len(self._tracks[track].granted) < self._scope.tokens:
                yield self._lease(state, job, heard=True)
                yield self._lease(state, job, heard=False)
        for belief in state.busy:
            yield Move(("crash", belief), State(state.tracks, _without(state.busy, belief), state.flight))
            if len(state.flight) < self._scope.in_flight:
                yield from self._send(state, belief, (*SETTLING, "renew"))
        for request in state.flight:
            yield Move(("lost", request), State(state.tracks, state.busy, _without(state.flight, request)))
            yield from self._arrive(state, request, again=True)
            yield from self._arrive(state, request, again=False)

    def calm_moves(self, state: State) -> Iterator[Move[State]]:
        """No request is lost or doubled, every answer is heard, nobody crashes, operators keep still, and workers come
        to an end: they neither renew nor release."""
        found = [self._tick(state)]
        for job in range(len(state.tracks)):
            found.append(self._without_worker(state, job, "expire"))
            if len(state.busy) < self._scope.workers:
                found.append(self._lease(state, job, heard=True))
        for belief in state.busy:
            found.extend(self._send(state, belief, ("complete", "fail")))
        found.extend(next(self._arrive(state, request, again=False)) for request in state.flight)
        return (move for move in found if move.after != state or move.broken)

    def calm(self, state: State) -> State:
        """Tokens that nobody shows any more are left out, and the others counted anew: only which is which decides."""
        tracks, names = [], []
        for job, track in enumerate(state.tracks):
            shown = [each.grant for each in state.busy if each.job == job]
            shown += [each.ask.grant for each in state.flight if each.job == job]
            number, renamed = self._tracks.renumbered(track, frozenset(shown))
            tracks.append(number)
            names.append(renamed)
        busy = (Belief(job, *(names[job][grant],) * 2, chosen) for job, _, grant, chosen in state.busy)
        flight = (Request(job, Ask(ask.name, *(names[job][ask.grant],) * 2)) for job, ask in state.flight)
        return State(tuple(tracks), tuple(busy), tuple(flight))

    def ended(self, state: State) -> bool:
        return all(self._tracks[track].job.state in ENDED for track in state.tracks)

    def _tick(self, state: State) -> Move[State]:
        return Move(("tick",), State(tuple(map(self._tracks.later, state.tracks)), state.busy, state.flight))

    def _without_worker(self, state: State, job: int, name: str) -> Move[State]:
        step = self._tracks.obey(state.tracks[job], Ask(name))
        return Move((name, job), State(_put(state.tracks, job, step.track), state.busy, state.flight), step.broken)

    def _lease(self, state: State, job: int, heard: bool) -> Move[State]:
        """A worker asks and gets the job. That it asked earlier, or hears later, is no other case: it acts later."""
        step = self._tracks.obey(state.tracks[job], Ask("lease"))
        busy, granted = state.busy, self._tracks[step.track].granted
        if heard and not step.refused:
            busy = _with(busy, Belief(job, granted[-1], len(granted), ""))
        token = 0 if step.refused else granted[-1]
        after = State(_put(state.tracks, job, step.track), busy, state.flight)
        return Move(("lease", job, token, heard), after, step.broken)

    def _send(self, state: State, belief: Belief, names: tuple[str, ...]) -> Iterator[Move[State]]:
        """A worker asks for a renewal, settles its lease, or sends its outcome again: it never changes its mind."""
        for name in (belief.chosen,) if belief.chosen else names:
            request = Request(belief.job, Ask(name, belief.token, belief.grant))
            if request not in state.flight:
                chosen = belief if name == "renew" else belief._replace(chosen=name)
                busy = _with(_without(state.busy, belief), chosen)
                yield Move(("send", request), State(state.tracks, busy, _with(state.flight, request)))

    def _arrive(self, state: State, request: Request, again: bool) -> Iterator[Move[State]]:
        """A request is obeyed, and its answer heard or, where that makes a difference, not. It may arrive `again`."""
        job, ask = request
        step = self._tracks.obey(state.tracks[job], ask)
        flight = state.flight if again else _without(state.flight, request)
        tracks = _put(state.tracks, job, step.track)
        busy = tuple(each for each in state.busy if not _is_told_to_stop(each, request, step.refused))
        if busy != state.busy:
            heard = tracks
            if ask.name == "complete" and not step.refused:
                heard = _put(tracks, job, self._tracks.told(step.track, ask.grant))
            yield Move(("arrive", request, again, step.refused, True), State(heard, busy, flight), step.broken)
        yield Move(("arrive", request, again, step.refused, False), State(tracks, state.busy, flight), step.broken)

    def tell(self, what: tuple) -> str:
        match what:
            case ("tick",):
                return "time passes"
            case ("expire", job):
                return f"the rescuer looks at job {job + 1}"
            case ("lease", job, token, heard):
                tail = "" if heard else ", but the answer is lost"
                return f"a worker leases job {job + 1} with token {token}{tail}"
            case ("crash", belief):
                return f"the worker with token {belief.token} of job {belief.job + 1} crashes"
            case ("send", request):
                return f"the worker sends: {_told(request)}"
            case ("lost", request):
                return f"lost on its way: {_told(request)}"
            case ("arrive", request, again, refused, heard):
                answer = "refused" if refused else "done"
                tail = ("" if heard else ", which nobody hears") + ("; a copy is still under way" if again else "")
                return f"arrives: {_told(request)}; the answer is {answer}{tail}"
            case (name, job):
                return f"somebody asks to {name} job {job + 1}"
        raise ValueError(what)


def _is_told_to_stop(belief: Belief, request: Request, refused: bool) -> bool:
    """Whether the answer to the request ends the worker's interest in its job."""
    job, ask = request
    its_own = belief[:3] == (job, ask.token, ask.grant)
    return its_own and (refused if ask.name == "renew" else belief.chosen == ask.name)


def _told(request: Request) -> str:
    return f"{request.ask.name} job {request.job + 1} with token {request.ask.token}"


def _put(items: tuple, index: int, item: object) -> tuple:
    return (*items[:index], item, *items[index + 1 :])


def _with(items: tuple, item: object) -> tuple:
    return tuple(sorted((*items, item)))


def _without(items: tuple, item: object) -> tuple:
    index = items.index(item)
    return items[:index] + items[index + 1 :]
