"""What the tests of parsing share: an edge without chance, and readers that give a command or the faults."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import orjson
import pytest

from eventjobs.api.body import parse
from eventjobs.api.edge import Edge
from eventjobs.api.enqueue_request import Occasion, read_job
from eventjobs.api.faults import Faults
from eventjobs.api.members import Members
from eventjobs.api.problems import Refused
from eventjobs.domain.commands import Command
from eventjobs.testing.builders import JOB_ID, NOW, PRODUCER_ACTOR, an_id

SALT = bytes(16)

Read = Callable[[Members], object]


@pytest.fixture
def edge() -> Edge:
    """Ids in order from `an_id(1)`, a roll of 0.25, and salts of zeros, at NOW."""
    numbers = count(1)
    return Edge(lambda: NOW, lambda: an_id(next(numbers)), lambda: 0.25, lambda: SALT)


@pytest.fixture
def reading() -> Callable[[Read, object], object]:
    """Reads a body (a document, or bytes as they are) and refuses it when it has faults, as a handler does."""

    def read_body(read: Read, body: object) -> object:
        faults = Faults()
        members = parse(body if isinstance(body, bytes) else orjson.dumps(body), faults)
        result = read(members)
        members.end()
        faults.refuse_if_any()
        return result

    return read_body


@pytest.fixture
def enqueue(edge: Edge, reading: Callable) -> Callable[..., Command]:
    """The command for a job's body."""

    def read(body: object, header_key: str | None = None) -> Command:
        return reading(lambda job: read_job(job, Occasion(edge, NOW, PRODUCER_ACTOR), header_key), body)

    return read


@pytest.fixture
def faults_of() -> Callable[..., dict[str, str]]:
    """The faults (message by path) for which a call is refused."""

    def faults_of(call: Callable, *arguments: object) -> dict[str, str]:
        with pytest.raises(Refused) as caught:
            call(*arguments)
        problem = caught.value.problem
        assert problem.code == "invalid_request", problem
        return {error["path"]: error["message"] for error in problem.more["errors"]}

    return faults_of


@pytest.fixture
def problem_of() -> Callable[..., object]:
    """The problem with which a call is refused."""

    def problem_of(call: Callable, *arguments: object) -> object:
        with pytest.raises(Refused) as caught:
            call(*arguments)
        return caught.value.problem

    return problem_of


@pytest.fixture
def job_id() -> str:
    """The job that commands are about."""
    return JOB_ID
