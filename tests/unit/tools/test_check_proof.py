"""The stand-alone checker: it takes what is true, refuses what was altered, and needs Python alone."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from eventjobs.api.render_proofs import consistency_document, inclusion_document
from eventjobs.store.checkpoint import Checkpoint
from eventjobs.store.contract import Head
from eventjobs.store.memory import MemoryEngine
from eventjobs.store.notes import SigningKey
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools import check_proof

SIZE = 21
CHECKER = Path(__file__).parents[3] / "tools" / "check_proof.py"


@pytest.fixture(scope="module")
def reader():
    """A log of 21 records."""
    engine = MemoryEngine()
    Driver(engine).execute(*[b.enqueue(b.an_id(number)) for number in range(1, SIZE + 1)])
    with engine.read() as reader:
        yield reader


class Desk:
    """A folder with a proof and heads, and the checker."""

    def __init__(self, folder: Path, reader) -> None:
        self.folder, self._reader = folder, reader

    def head(self, size: int, name: str = "head") -> Path:
        path = self.folder / name
        path.write_text(Checkpoint("eventjobs", Head(size, self._reader.root(size))).text())
        return path

    def proof(self, document: dict) -> Path:
        path = self.folder / "proof.json"
        path.write_text(json.dumps(document))
        return path

    def code(self, document: dict, *heads: Path) -> int:
        return check_proof.main([str(self.proof(document)), *map(str, heads)])


@pytest.fixture
def desk(tmp_path, reader) -> Desk:
    return Desk(tmp_path, reader)


def test_every_true_proof_is_taken(desk, reader):
    """Of every record in every log, and of every log in every later one."""
    for size in range(SIZE + 1):
        new = desk.head(size, "new")
        for place in range(size + 1):
            old = desk.head(place, "old")
            document = consistency_document(reader, place, size)
            assert desk.code(document, old) == desk.code(document, old, new) == 0
            if place:
                assert desk.code(inclusion_document(reader, place, size), new) == 0


def altered(document: dict) -> dict[str, dict]:
    """The document with one thing changed, in every way there is, by what it was."""
    found = {}

    def change(name: str, **members: object) -> None:
        found[name] = {**copy.deepcopy(document), **members}

    hashes = document["hashes"]
    for place in range(len(hashes)):
        wrong = base64.b64encode(bytes(32)).decode()
        change(f"hash {place}", hashes=[*hashes[:place], wrong, *hashes[place + 1 :]])
        change(f"without {place}", hashes=hashes[:place] + hashes[place + 1 :])
    change("one more", hashes=[*hashes, hashes[0]])
    change("reversed", hashes=hashes[::-1])
    change("size", head={**document["head"], "size": document["head"]["size"] - 1})
    change("root", head={**document["head"], "root": hashes[0]})
    if "record" in document:
        change("record", record=document["record"].replace("email", "Email"))
        change("position", position=document["position"] + 1)
    else:
        change("from size", **{"from": {**document["from"], "size": document["from"]["size"] + 1}})
        change("from root", **{"from": {**document["from"], "root": hashes[0]}})
    return found


def test_no_altered_proof_is_taken(desk, reader):
    """Whatever is changed, the checker says that it does not hold."""
    old, new = desk.head(6, "old"), desk.head(19, "new")
    for document, heads in (
        (inclusion_document(reader, 6, 19), [new]),
        (consistency_document(reader, 6, 19), [old, new]),
    ):
        assert desk.code(document, *heads) == 0
        assert {name: desk.code(each, *heads) for name, each in altered(document).items()} == dict.fromkeys(
            altered(document), 1
        )


def test_a_proof_of_another_log_is_not_taken(desk, reader):
    """The heads that were kept decide which log is spoken of, not the proof."""
    inclusion, consistency = inclusion_document(reader, 3, 10), consistency_document(reader, 3, 10)
    assert desk.code(inclusion, desk.head(11)) == 1
    assert desk.code(consistency, desk.head(4)) == 1
    assert desk.code(consistency, desk.head(3), desk.head(11, "new")) == 1


def test_a_proof_made_to_fit_a_head_is_not_taken(desk, reader, tmp_path):
    """When the log was rewritten since, a proof that claims the kept root does not lead to it."""
    wrong = base64.b64encode(bytes(range(32))).decode()
    for size in (3, 4, 7):
        head = tmp_path / "kept"
        head.write_text(f"eventjobs\n{size}\n{wrong}\n")
        consistency = consistency_document(reader, size, 10)
        assert desk.code({**consistency, "from": {"size": size, "root": wrong}}, head) == 1
        inclusion = inclusion_document(reader, 2, size)
        assert desk.code({**inclusion, "head": {"size": size, "root": wrong}}, head) == 1


def test_signed_heads_are_read(desk, reader, tmp_path):
    """The signature is passed over."""
    text = Checkpoint("example.com/jobs", Head(10, reader.root(10))).text()
    signed = tmp_path / "signed"
    signed.write_text(SigningKey.new("example.com/jobs").signed(text))
    assert desk.code(inclusion_document(reader, 3, 10), signed) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"type": None},
        {"hashes": ["x"]},
        {"hashes": ["eA=="]},
        {"hashes": None},
        {"head": None},
        {"head": {"size": "many", "root": ""}},
        {"record": 7},
    ],
)
def test_what_is_no_proof_cannot_be_read(desk, reader, change, capsys):
    """It neither holds nor fails."""
    assert desk.code({**inclusion_document(reader, 3, 10), **change}, desk.head(10)) == 2
    assert capsys.readouterr().err.startswith("cannot be read: ")


def test_what_is_no_head_cannot_be_read(desk, reader, tmp_path):
    """Nor is there anything to check without one."""
    document = inclusion_document(reader, 3, 10)
    for text in ("", "eventjobs\n10\n", "eventjobs\nten\nx\n", f"eventjobs\n10\n{'A' * 40}\n"):
        (tmp_path / "bad").write_text(text)
        assert desk.code(document, tmp_path / "bad") == 2
    assert desk.code(document, tmp_path / "missing") == 2
    assert check_proof.main([]) == check_proof.main(["one"]) == check_proof.main(["1", "2", "3", "4"]) == 2


def test_it_needs_python_alone(desk, reader):
    """Run as a file, isolated, without any installed package; it shows the record that was proved."""
    proof, head = desk.proof(inclusion_document(reader, 3, 10)), desk.head(10)
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(CHECKER), str(proof), str(head)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    said, record = done.stdout.split("\n", 1)
    assert said == "holds: this record is at position 3 of the 10 of the head"
    assert json.loads(record) == json.loads(reader.record_text(3))
    (desk.folder / "other").write_text(desk.head(11).read_text())
    again = [sys.executable, "-S", "-I", str(CHECKER), str(proof), str(desk.folder / "other")]
    assert subprocess.run(again, timeout=30).returncode == 1
