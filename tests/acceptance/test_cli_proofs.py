"""head, prove and keygen: what is kept of a log, and what is shown of it, from a coordinator and from its store."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.store.checkpoint import parse_checkpoint
from eventjobs.store.notes import PublicKey, SigningKey
from eventjobs.testing.processes import CoordinatorProcess
from eventjobs.tools import check_proof

EMPTY = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def run(*arguments: object, code: int = exits.DONE, **environment: str) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner(env=environment).invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


def test_the_head_of_a_running_log(tmp_path):
    """As the coordinator writes it, or under a name and with a key of one's own; in text and in JSON."""
    with CoordinatorProcess(tmp_path) as coordinator:
        url = ("--url", coordinator.url)
        assert run("head", *url).stdout == f"eventjobs\n0\n{EMPTY}\n\n"
        assert run("head", *url, "--origin", "example.com/jobs").stdout == f"example.com/jobs\n0\n{EMPTY}\n\n"
        document = orjson.loads(run("head", *url, "--json").stdout_bytes)
        assert document == {"size": 0, "root": EMPTY, "origin": "eventjobs", "note": f"eventjobs\n0\n{EMPTY}\n\n"}
        key = tmp_path / "head.key"
        public = PublicKey.parse(run("keygen", "example.com/jobs", "--out", key).stdout)
        note = run("head", *url, "--signing-key", key).stdout_bytes
        assert public.has_signed(note) and parse_checkpoint(note).origin == "example.com/jobs"
        assert run("head", EVENTJOBS_URL=coordinator.url, EVENTJOBS_SIGNING_KEY=str(key)).stdout_bytes == note
    assert run("head", *url, code=exits.UNREACHABLE)


def test_a_coordinator_signs_its_heads(tmp_path):
    """With the key it was started with; whoever asks gets the signed note."""
    run("keygen", "example.com/jobs", "--out", tmp_path / "head.key")
    settings = {"EVENTJOBS_SIGNING_KEY": str(tmp_path / "head.key")}
    with CoordinatorProcess(tmp_path, environment=settings) as coordinator:
        note = run("head", "--url", coordinator.url).stdout_bytes
    public = PublicKey.parse((tmp_path / "head.key.pub").read_text())
    assert public.has_signed(note) and parse_checkpoint(note).origin == "example.com/jobs"


def test_a_coordinator_is_not_started_with_a_key_that_is_none(tmp_path):
    """It says so at once."""
    (tmp_path / "key").write_text("nonsense")
    for options, reason in (
        (("--signing-key", "key"), "a private key starts with"),
        (("--signing-key", "gone"), "cannot be read"),
        (("--origin", "two\nlines"), "one line"),
    ):
        serve = [sys.executable, "-m", "eventjobs", "serve", "--data", "data", *options]
        done = subprocess.run(serve, cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert done.returncode == exits.REFUSED and reason in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("source", ["url", "store"])
def test_proofs_that_a_third_party_checks(tmp_path, source):
    """A record that is in the log, and a log that goes on from a head that was kept; the checker takes both."""
    with CoordinatorProcess(tmp_path) as coordinator:
        url = ("--url", coordinator.url)
        data = next(path.parent for path in tmp_path.rglob("data.mdb"))
        place = url if source == "url" else ("--data", data)
        for number in range(3):
            run("enqueue", "k", str(number), *url)
        old, new, proof = tmp_path / "old", tmp_path / "new", tmp_path / "proof"
        old.write_bytes(run("head", *place).stdout_bytes)
        for number in range(4):
            run("enqueue", "k", str(number), *url)
        new.write_bytes(run("head", *place).stdout_bytes)
        for arguments, heads in (
            (("2",), [new]),
            (("2", "--size", "3"), [old]),
            (("--from-head", old), [old, new]),
            (("--from-head", old, "--size", "5"), [old]),
        ):
            proof.write_bytes(run("prove", *arguments, *place).stdout_bytes)
            assert check_proof.main([str(proof), *map(str, heads)]) == 0
        old.write_text(old.read_text().replace("\n3\n", "\n2\n"))
        refused = run("prove", "--from-head", old, *place, code=exits.REFUSED).stderr
        assert "the first 2 records are not those of the head" in refused
        old.write_text(old.read_text().replace("\n2\n", "\n99\n"))
        for arguments in (("--from-head", old), ("8",), ("3", "--size", "2"), ("1", "--size", "8")):
            assert run("prove", *arguments, *place, code=exits.REFUSED).stderr.startswith("eventjobs: ")


def test_a_proof_is_of_one_thing():
    """A record or a head."""
    for arguments in ((), ("1", "--from-head", "x"), ("0",), ("one",)):
        run("prove", *arguments, code=exits.USAGE)


def test_keys_are_kept_well(tmp_path):
    """The private one is for its owner's eyes; both are what they say; nothing is written over."""
    private, public = tmp_path / "a.key", tmp_path / "a.key.pub"
    shown = run("keygen", "example.com/jobs", "--out", private)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    key = SigningKey.parse(private.read_text())
    assert key.public_key == PublicKey.parse(public.read_text()) == PublicKey.parse(shown.stdout)
    assert key.text() not in shown.output
    assert "not written over" in run("keygen", "example.com/jobs", "--out", private, code=exits.REFUSED).stderr
    private.unlink()
    assert "not written over" in run("keygen", "example.com/jobs", "--out", private, code=exits.REFUSED).stderr
    assert not private.exists()
    assert "space nor plus" in run("keygen", "a+b", "--out", tmp_path / "b", code=exits.REFUSED).stderr
    gone = Path(tmp_path / "no" / "where")
    assert "cannot be written" in run("keygen", "a", "--out", gone, code=exits.REFUSED).stderr
