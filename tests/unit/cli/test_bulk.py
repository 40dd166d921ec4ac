"""Enqueueing from lines: how they are cut into requests, and how a refusal finds its line."""

from __future__ import annotations

import io

import click
import orjson
import pytest

from eventjobs.cli import bulk
from eventjobs.cli.bulk import enqueue_lines
from eventjobs.cli.remote import Problem
from eventjobs.client import answers as client
from eventjobs.client.answers import Fault
from eventjobs.client.errors import refusal


class Taker:
    """Stands for the coordinator: keeps what it is sent, and refuses a job of kind `bad`."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def post(self, path: str, body: object) -> bytes:
        assert path == "/jobs/batch"
        text = orjson.dumps(body)
        jobs = orjson.loads(text)["jobs"]
        for index, job in enumerate(jobs):
            if job.get("kind") == "bad":
                fault = Fault(f"jobs[{index}].kind", "must be good")
                raise Problem(refusal(client.Problem(code="invalid_request", status=422, errors=[fault])))
        self.requests.append(text)
        return orjson.dumps({"jobs": jobs, "created": len(jobs)})


def test_each_line_is_a_payload_of_the_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """With common fields each line is a payload, exactly as it stands; blank lines are nothing."""
    taker = Taker()
    enqueue_lines(taker, io.BytesIO(b'1.10\n\n  {"b": 1,"a":[ ]}\n'), {"kind": "k"}, as_json=False)
    assert taker.requests == [b'{"jobs":[{"kind":"k","payload":1.10},{"kind":"k","payload":{"b": 1,"a":[ ]}}]}']
    assert capsys.readouterr().out == "2 created\n"


def test_each_line_is_a_whole_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Without common fields each line is a job; --json prints one job a line."""
    enqueue_lines(Taker(), io.BytesIO(b'{"kind":"a"}\n{"kind":"b"}'), None, as_json=True)
    assert capsys.readouterr().out == '{"kind":"a"}\n{"kind":"b"}\n'


def test_requests_hold_a_bounded_number_of_jobs_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is full at the limit of jobs or of bytes, and no line is lost in between."""
    monkeypatch.setattr(bulk, "BATCH_JOBS_MAX", 3)
    monkeypatch.setattr(bulk, "BATCH_BYTES_MAX", 10)
    taker = Taker()
    enqueue_lines(taker, io.BytesIO(b'1\n2\n3\n4\n"12345678"\n"123456789012"\n5\n'), {"kind": "k"}, as_json=True)
    payloads = [[job["payload"] for job in orjson.loads(text)["jobs"]] for text in taker.requests]
    assert payloads == [[1, 2, 3], [4], ["12345678"], ["123456789012"], [5]]


def test_a_refusal_names_the_line_and_what_went_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a job in its batch becomes the number of its line; blank lines count."""
    monkeypatch.setattr(bulk, "BATCH_JOBS_MAX", 2)
    lines = b'{"kind":"a"}\n\n{"kind":"a"}\n{"kind":"a"}\n\n{"kind":"bad"}\n'
    with pytest.raises(Problem) as refused:
        enqueue_lines(Taker(), io.BytesIO(lines), None, as_json=True)
    assert refused.value.message == "invalid_request: line 6 kind: must be good; 2 lines before were taken"


def test_a_line_that_is_not_json_stops_before_its_batch() -> None:
    """A broken line is wrong usage; the lines of its batch are not sent."""
    taker = Taker()
    with pytest.raises(click.UsageError, match=r"^line 2 is not JSON \(column 2: .*\); no line was taken$"):
        enqueue_lines(taker, io.BytesIO(b"1\n x\n3\n"), {"kind": "k"}, as_json=True)
    assert taker.requests == []


def test_a_line_that_is_not_json_says_which_lines_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches before the broken line's own went in; the message ends where they did."""
    monkeypatch.setattr(bulk, "BATCH_JOBS_MAX", 2)
    taker = Taker()
    with pytest.raises(click.UsageError, match=r"line 6 is not JSON \(.*\); lines up to 3 were taken, no later ones$"):
        enqueue_lines(taker, io.BytesIO(b"1\n\n2\n3\n4\n{\n"), {"kind": "k"}, as_json=True)
    assert [orjson.loads(text)["jobs"] for text in taker.requests] == [[{"kind": "k", "payload": n} for n in (1, 2)]]
