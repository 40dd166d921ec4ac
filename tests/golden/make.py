"""Writes a golden store: python tests/golden/make.py FOLDER. See README.md; a folder that is there is never rewritten.

Ids, times, salts and the key are fixed, so that the same version of the program writes the same log.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

import lmdb

from eventjobs.domain.retry import policy_from
from eventjobs.projections import READ_MODELS
from eventjobs.store.checkpoint import Checkpoints
from eventjobs.store.lmdb import open_engine
from eventjobs.store.notes import SigningKey
from eventjobs.testing import builders as b
from eventjobs.testing.answers import answers
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live, retain
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer.export import export

MAP_SIZE = 64 << 20
KEY_NAME = "golden.example/jobs"
SEED = b"a key that everybody may know..."

TEXTS = (
    '{"to": "Ada ✉", "naïve": "日本語 \\u00e9 \\ud83d\\ude00", "emoji": "😀"}',
    "[1.0, 1e400, -0.0, 12345678901234567890123, 0.1000]",
    '  {"b": 1,\n\t"a": 2, "a": 3}  ',
    '"\\u0000 \\" \\\\ \\/"',
    "null ",
    "{}",
)
"""Payloads that must come back as they were sent."""
ERROR = '{"type": "Fehler", "message": "ging schief: ✗", "traceback": "line 1\\nline 2"}'


def tell(driver: Driver) -> None:
    """Everything that can happen to a job, several times; then jobs with every sort of text, number and actor."""
    live(driver, jobs=60)
    for number, text in enumerate(TEXTS, 1_001):
        driver.execute(
            b.enqueue(
                b.an_id(number),
                kind="a.b_c:d/e@f-g",
                queue="Q" * 128,
                priority=-100 if number % 2 else 100,
                max_attempts=number % 3 + 1,
                idempotency_key=f"schlüssel-{number} 🔑",
                retry_policy=policy_from(
                    [
                        {"type": "exponential", "base": 0.25, "max_delay": 604_800, "jitter": 1},
                        {"type": "linear", "base": 2.5, "max_delay": 7, "jitter": 0.125},
                        {"type": "constant", "base": 0},
                    ][number % 3]
                ),
                run_at=b.at(-3_600) if number % 2 else None,
                payload=b.content(text, number),
                now=b.at(1_000 + number),
            )
        )
    for turn in range(3):
        now = b.at(3_000 + 100 * turn)
        command = b.lease(worker="wörker 1", now=now, request_id=f"wunsch-{turn}")
        leased = driver.lease(command, queues=["Q" * 128], limit=9)
        for job in leased[: 2 * turn]:
            result = b.content(TEXTS[turn], 2_000 + turn)
            driver.execute(b.complete(job.id, token=job.lease_token, result=result, now=now + b.seconds(0.5)))
        for job in leased[2 * turn :][:2]:
            error = b.content(ERROR, 3_000 + turn)
            driver.execute(b.fail(job.id, token=job.lease_token, error=error, roll=0.5, now=now + b.seconds(1)))
        driver.expire(now + b.seconds(90))
    driver.execute(b.cancel(b.an_id(1_006), reason="nicht mehr nötig", now=b.at(4_000)))
    for number in (2_001, 2_002):
        driver.execute(b.enqueue(b.an_id(number), kind="last", payload=b.content(f"{number}", number), now=b.at(5_000)))
    failing, _ = driver.lease(b.lease(now=b.at(5_001), request_id="last"), kinds=["last"], limit=2)
    driver.execute(b.fail(failing.id, token=failing.lease_token, now=b.at(5_002)))
    retain(driver, jobs=60)


def make(folder: Path) -> None:
    """Write the store, its export, its signed head and what it answers."""
    folder.mkdir()
    key = SigningKey._of(KEY_NAME, SEED)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        engine = open_engine(data, READ_MODELS, MAP_SIZE)
        tell(Driver(engine))
        expected = answers(engine)
        with engine.read() as reader:
            head = reader.head()
        engine.close()
        with lmdb.open(str(data), max_dbs=128) as env:
            (Path(name) / "copy").mkdir()
            env.copy(str(Path(name) / "copy"), compact=True)
        (folder / "data.mdb.gz").write_bytes(gzip.compress((Path(name) / "copy" / "data.mdb").read_bytes(), mtime=0))
        with open_source(data) as source, (folder / "export.jsonl").open("wb") as stream:
            export(source, KEY_NAME, stream, lambda what, done, total: None)
    (folder / "head").write_text(Checkpoints.of(None, key).note(head))
    (folder / "head.key.pub").write_text(f"{key.public_key.text()}\n")
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "answers.json").write_text(f"{text}\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
