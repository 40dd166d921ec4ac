"""GET /log/head and /log/proof: heads to be kept, and proofs that hold against them."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import orjson
import pytest

from eventjobs.api.app import build_app
from eventjobs.api.keys import NOTES
from eventjobs.store.checkpoint import Checkpoints, parse_checkpoint
from eventjobs.store.merkle import leaf_hash
from eventjobs.store.notes import SigningKey
from eventjobs.store.proofs import proves_consistency, proves_inclusion

JSON = {"Accept": "application/json"}


def raw(text: str) -> bytes:
    return base64.b64decode(text)


def hashes(proof: dict) -> list[bytes]:
    return [raw(each) for each in proof["hashes"]]


async def proof(api, query: str) -> dict:
    answer = await api.call("GET", f"/log/proof?{query}")
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.parametrize("accept", [{}, {"Accept": "*/*"}, {"Accept": "text/plain"}])
async def test_the_head_is_a_checkpoint(api, accept):
    """As text unless JSON is asked for; it is the head that the events come with."""
    await api.enqueue()
    answer = await api.call("GET", "/log/head", headers=accept)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    checkpoint = parse_checkpoint(answer.body)
    head = (await api.call("GET", "/events")).json["head"]
    assert (checkpoint.origin, checkpoint.head.size) == ("eventjobs", head["size"])
    assert checkpoint.head.root == raw(head["root"])
    assert answer.body == Checkpoints.of(None, None).note(checkpoint.head).encode()


async def test_the_head_in_its_parts(api):
    """Size, root, origin, and the text that the other form has."""
    text = (await api.call("GET", "/log/head")).body.decode()
    head = (await api.call("GET", "/log/head", headers=JSON)).json
    assert head == {
        "size": 0,
        "root": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "origin": "eventjobs",
        "note": text,
    }


def test_the_application_signs_with_what_it_is_given():
    """Whoever builds it says how a head is written."""
    coordinator = SimpleNamespace(clock=SimpleNamespace(now=None), take_in=lambda reader: None)
    notes = Checkpoints.of("example.com/jobs", SigningKey.new("example.com/jobs"))
    assert build_app(coordinator, notes=notes)[NOTES] is notes


async def test_each_record_is_shown(api):
    """Its text is the event's own; the proof holds against the head, and for earlier sizes against theirs."""
    for number in range(5):
        await api.enqueue(payload=number)
    events = (await api.call("GET", "/events")).json
    for size in range(1, 6):
        for position in range(1, size + 1):
            shown = await proof(api, f"position={position}&size={size}")
            assert (shown["type"], shown["position"], shown["head"]["size"]) == ("inclusion", position, size)
            leaf = leaf_hash(shown["record"].encode())
            assert proves_inclusion(leaf, position, size, hashes(shown), raw(shown["head"]["root"]))
            assert orjson.loads(shown["record"])["job_id"] == events["events"][position - 1]["job_id"]
    shown = await proof(api, "position=2")
    assert shown["head"] == events["head"]


async def test_each_earlier_log_is_shown_to_be_the_beginning(api):
    """From nothing to all; the heads in between are those that were there then."""
    heads = [(await api.call("GET", "/log/head", headers=JSON)).json]
    for _ in range(5):
        await api.enqueue()
        heads.append((await api.call("GET", "/log/head", headers=JSON)).json)
    for new in heads:
        for old in heads[: new["size"] + 1]:
            shown = await proof(api, f"from={old['size']}&size={new['size']}")
            assert shown["type"] == "consistency"
            assert [shown["from"], shown["head"]] == [{k: h[k] for k in ("size", "root")} for h in (old, new)]
            assert proves_consistency(old["size"], raw(old["root"]), new["size"], raw(new["root"]), hashes(shown))
    assert (await proof(api, "from=3"))["head"] == (await proof(api, "from=3&size=5"))["head"]


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("", {"position": "must be given, or else from"}),
        ("position=1&size=9", {"size": "must be at most 2, the number of records there are"}),
        ("size=9", {"position", "size"}),
        ("position=1&from=1", {"from": "must not be given together with position"}),
        ("position=0", {"position": "must be one of the first 2"}),
        ("position=3", {"position": "must be one of the first 2"}),
        ("position=2&size=1", {"position": "must be one of the first 1"}),
        ("from=3", {"from": "must be at most 2"}),
        ("from=2&size=1", {"from": "must be at most 1"}),
        ("position=x&size=-1&more=1", {"position", "size", "more"}),
        ("position=1&position=1", {"position": "must be given once"}),
    ],
)
async def test_what_cannot_be_proved_is_refused(api, query, faults):
    """Every fault with its parameter."""
    for _ in range(2):
        await api.enqueue()
    told = (await api.call("GET", f"/log/proof?{query}")).faults()
    assert told == faults if isinstance(faults, dict) else set(told) == faults


async def test_an_empty_log_has_nothing_to_prove_but_that(api):
    """There is no record, and its beginning is itself."""
    assert (await api.call("GET", "/log/proof?position=1")).faults() == {"position": "must be one of the first 0"}
    shown = await proof(api, "from=0")
    assert shown["from"] == shown["head"] and shown["hashes"] == []
    assert set((await api.call("GET", "/log/head?x=1")).faults()) == {"x"}
