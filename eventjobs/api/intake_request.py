"""What a producer asked for within a transaction of its own: the members of POST /jobs, checked by the same rules."""

from __future__ import annotations

from collections.abc import Callable

from eventjobs.api.body import parse
from eventjobs.api.edge import Edge, read_actor
from eventjobs.api.enqueue_request import Occasion, read_job
from eventjobs.api.faults import Faults
from eventjobs.api.problems import Refused
from eventjobs.domain.commands import ActorType, Enqueue
from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.domain.value import changed


def reader_of(edge: Edge) -> Callable[[Asked], Enqueue | NotEnqueued]:
    """What makes the command of a request, under the id its producer was given, or says what is wrong with it."""

    def read(asked: Asked) -> Enqueue | NotEnqueued:
        faults = Faults()
        try:
            body = parse(asked.text, faults)
            actor = read_actor("actor", asked.actor, ActorType.PRODUCER, faults)
            command = read_job(body, Occasion(edge, edge.now(), actor))
            faults.refuse_if_any()
        except Refused as refused:
            return NotEnqueued(refused.problem.code, refused.problem.detail)
        return changed(command, job_id=asked.job_id)

    return read
