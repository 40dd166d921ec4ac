"""One bit that turns anywhere in a store's file: every answer is what it was, or says that something is damaged."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import textwrap
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import lmdb
import pytest

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.tools.verify.isolated import verify_isolated

JOBS = 60
ANSWER_SECONDS_MAX = 60
PAGE = 4096
HEAD_BYTES = 152
HEAD_NUMBER_AT = 144
"""Where one of LMDB's two heads has the number of its transaction."""
ANYWHERE = {"quick": 60, "ci": 400, "deep": 6_000}
IN_KEYS = {"quick": 40, "ci": 200, "deep": 2_000}

Bit = tuple[int, int]
"""A place in the file, and the number of the bit."""

PROGRAM = """
    # Asks a sound store everything, then the same store with some bits turned, for each line of places on its input.
    import hashlib, json, sys
    from pathlib import Path

    import lmdb, structlog

    from eventjobs.projections import READ_MODELS
    from eventjobs.store.contract import StoreError
    from eventjobs.store.lmdb import open_engine
    from eventjobs.testing.questions import Known, questions

    directory, sound = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
    lines = []

    def note(logger, method, line):
        lines.append(line["event"])
        raise structlog.DropEvent

    structlog.configure(processors=[note])

    def opened():
        return open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)

    def answers(content):
        (directory / "data.mdb").write_bytes(content)
        try:
            engine = opened()
        except StoreError as error:
            return {"opening": f"told: {error}"}
        try:
            return dict(answered(engine))
        finally:
            engine.close()

    def answered(engine):
        try:
            transaction = engine.begin()
        except (StoreError, lmdb.Error) as error:
            yield "beginning", f"told: {error}"
            return
        for name, question in questions(transaction, known):
            lines.clear()
            try:
                answer = hashlib.sha256(repr(question()).encode()).hexdigest()
            except (StoreError, lmdb.Error) as error:
                answer = f"told: {error}"
            except ValueError as error:  # what is asked for is not there
                answer = f"refused: {error}"
            yield name, "told: in the log" if "damaged_job_row" in lines else answer
        engine.abort()

    (directory / "data.mdb").write_bytes(sound)
    engine = opened()
    with engine.read() as reader:
        known = Known.of(reader)
    engine.close()
    right = answers(sound)
    assert not any(answer.startswith("told") for answer in right.values()), right
    print("ready", flush=True)
    for line in sys.stdin:
        damaged = bytearray(sound)
        for place, bit in json.loads(line):
            damaged[place] ^= 1 << bit
        found = answers(bytes(damaged))
        told = [name for name, answer in found.items() if answer.startswith("told")]
        wrong = [name for name, answer in found.items() if name not in told and answer != right[name]]
        print(json.dumps([told, wrong]), flush=True)
"""


class Questioner:
    """A process that asks damaged copies of a store everything, and is replaced when it dies of one."""

    def __init__(self, directory: Path, sound: Path) -> None:
        self.sound, self._directory = sound, directory
        self._errors = directory.with_name("errors")
        directory.mkdir()
        self._start()

    def _start(self) -> None:
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(PROGRAM), self._directory, self.sound],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._line() == "ready\n"

    def _line(self) -> str:
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS_MAX)
        assert ready, "it came to no end"
        return self._process.stdout.readline()

    def outcome(self, bits: Iterable[Bit]) -> str:
        """`same`, `told`, `died`, or `wrong: ` and the questions that were answered wrongly without a word."""
        self._process.stdin.write(json.dumps(list(bits)) + "\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            assert self._process.wait() < 0, self._errors.read_text()
            self._close()
            self._start()
            return "died"
        told, wrong = json.loads(line)
        return f"wrong: {', '.join(wrong)}" if wrong else "told" if told else "same"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()


def fill(directory: Path) -> None:
    """Jobs in every state, in several queues, with keys and contents of all sizes: tables of several pages."""
    chance = random.Random(1)
    engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
    for number in range(JOBS):
        handler = Handler(engine.begin(), Effects())
        payload = b.content('"' + "x" * chance.choice((5, 40, 300, 3_000)) + '"', number)
        members = {
            "max_attempts": 1 if number % 7 == 0 else 3,
            "idempotency_key": f"key {number}" * (number % 2) or None,
        }
        if number % 11 == 0:
            members["run_at"] = b.at(1_000 + number)
        lane = {"queue": f"queue-{number % 3}", "kind": f"kind-{number % 2}", "priority": number % 5}
        job_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        handler.enqueue([b.enqueue(job_id, payload=payload, **lane, **members)])
        if number % 3 == 2:
            jobs = handler.lease(b.lease(request_id=f"request {number}"), None, None, 3).jobs
            ends = (b.complete, b.fail, b.cancel) if number % 4 == 0 else (b.complete, b.fail)
            handler.execute([end(job.id, **_shown(end, job)) for end, job in zip(ends, jobs, strict=False)])
        engine.commit()
    engine.close()


def _shown(end, job) -> dict[str, int]:
    return {} if end is b.cancel else {"token": job.lease_token}


@pytest.fixture(scope="module")
def questioner(tmp_path_factory) -> Iterator[Questioner]:
    """Knows a sound store of some sixty jobs."""
    directory = tmp_path_factory.mktemp("flipped")
    fill(directory / "sound")
    questioner = Questioner(directory / "asked", directory / "sound" / "data.mdb")
    yield questioner
    questioner.close()


def is_found_by_verify(questioner: Questioner, bits: Iterable[Bit], directory: Path) -> bool:
    """Whether `eventjobs verify` calls the damaged store damaged."""
    damaged = bytearray(questioner.sound.read_bytes())
    for place, bit in bits:
        damaged[place] ^= 1 << bit
    (directory / "data.mdb").write_bytes(damaged)
    return verify_isolated(directory, None, False, lambda *_: None)["outcome"] == "damaged"


def test_a_bit_anywhere(questioner, profile, tmp_path, record_property):
    """No answer is wrong without a word; where one ever is, in thousands, verify finds the damage."""
    seed = random.SystemRandom().randrange(1 << 32) if profile == "deep" else 1
    chance, size = random.Random(seed), questioner.sound.stat().st_size
    outcomes: Counter[str] = Counter()
    wrong = []
    for _ in range(ANYWHERE[profile]):
        bits = [(chance.randrange(size), chance.randrange(8))]
        outcome = questioner.outcome(bits)
        outcomes[outcome.partition(":")[0]] += 1
        if outcome.startswith("wrong"):
            wrong.append((bits, outcome))
            assert is_found_by_verify(questioner, bits, tmp_path), (seed, bits, outcome)
    record_property("outcomes", f"seed {seed}: {dict(outcomes)}")
    assert outcomes["told"] and outcomes["same"]
    assert len(wrong) <= ANYWHERE[profile] // 1_000, (seed, wrong)


def keys_in(file: Path) -> Iterator[tuple[str, list[int], int]]:
    """Of each row: its database, where in the file the row's key is, old copies of the row included, and its size."""
    whole = file.read_bytes()
    with lmdb.open(str(file), subdir=False, readonly=True, lock=False, max_dbs=64) as env, env.begin() as txn:
        for name in list(txn.cursor().iternext(values=False)):
            yield "names", places(whole, name), len(name)
            for key, value in txn.cursor(db=env.open_db(name, txn=txn, create=False)):
                if found := places(whole, key + value):  # else the value is on pages of its own
                    yield name.decode(), found, len(key)


def places(whole: bytes, part: bytes) -> list[int]:
    """Where a part occurs."""
    found = [whole.find(part)]
    while found[-1] != -1:
        found.append(whole.find(part, found[-1] + 1))
    return found[:-1]


def test_a_bit_in_a_key(questioner, profile):
    """A row whose key was damaged is not taken for one that is not there, nor a table for a new one."""
    chance = random.Random(2)
    rows = list(keys_in(questioner.sound))
    by_table = {table: [row for row in rows if row[0] == table] for table, _, _ in rows}
    told: Counter[str] = Counter()
    for _ in range(IN_KEYS[profile] // len(by_table) + 1):
        for table, of_table in by_table.items():
            _, found, size = chance.choice(of_table)
            byte, bit = chance.randrange(size), chance.randrange(8)
            outcome = questioner.outcome([(place + byte, bit) for place in found])
            assert not outcome.startswith("wrong"), (table, found, byte, bit, outcome)
            told[table] += outcome != "same"
    assert {table for table in by_table if not told[table]} <= UNASKED


UNASKED = {"rebuild_jobs", "projection/lease_request_ages", "meta"}
"""Tables of which a damaged key may change nothing: no question goes there, or what is lost is made anew."""


def test_a_bit_in_a_head_of_lmdb(questioner, profile, tmp_path):
    """No bit of the two heads takes back a commit, but for one that nothing in the file tells from a sound one."""
    bits = [(head + byte, bit) for head in (0, PAGE) for byte in range(HEAD_BYTES) for bit in range(8)]
    if profile == "quick":  # of all bytes but the numbers' a few
        bits = [each for each in bits if each[0] % PAGE >= HEAD_NUMBER_AT or sum(each) % 40 == 0]
    unseen = []
    for place, bit in bits:
        outcome = questioner.outcome([(place, bit)])
        if outcome.startswith("wrong") and not is_found_by_verify(questioner, [(place, bit)], tmp_path):
            unseen.append((place % PAGE, bit))
    assert unseen in ([], [(HEAD_NUMBER_AT, 1)])
