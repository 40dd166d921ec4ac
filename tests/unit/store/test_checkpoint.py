"""Checkpoints: the head of the log as other transparency tools read and write it."""

from __future__ import annotations

import base64

import pytest

from eventjobs.store.checkpoint import Checkpoint, Checkpoints, parse_checkpoint
from eventjobs.store.contract import Head
from eventjobs.store.merkle import EMPTY_ROOT
from eventjobs.store.notes import BadNote, SigningKey

PUBLISHED = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
SIGNATURE = (
    "\n— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
)
ROOT = base64.b64encode(EMPTY_ROOT).decode()


def test_the_published_checkpoint_is_read_and_written():
    """That of the specification, with its signature, without, and without the last line end."""
    read = parse_checkpoint((PUBLISHED + SIGNATURE).encode())
    assert (read.origin, read.head.size) == ("example.com/behind-the-sofa", 20852163)
    assert read.text() == PUBLISHED
    for form in (PUBLISHED, PUBLISHED + "\n", PUBLISHED.rstrip("\n"), PUBLISHED + "an extension\n" + SIGNATURE):
        assert parse_checkpoint(form.encode()) == read


def test_a_checkpoint_without_a_key():
    """The three lines and a blank one; a log that nobody named has the program's name."""
    head = Head(0, EMPTY_ROOT)
    assert Checkpoints.of(None, None).note(head) == f"eventjobs\n0\n{ROOT}\n\n"
    assert Checkpoints.of("example.com/jobs", None).note(head) == f"example.com/jobs\n0\n{ROOT}\n\n"
    assert parse_checkpoint(Checkpoints.of(None, None).note(head).encode()) == Checkpoint("eventjobs", head)


def test_a_checkpoint_with_a_key_is_signed():
    """The origin is the key's name unless another is given."""
    key, head = SigningKey.new("example.com/jobs"), Head(7, bytes(32))
    note = Checkpoints.of(None, key).note(head).encode()
    assert parse_checkpoint(note) == Checkpoint("example.com/jobs", head)
    assert key.public_key.has_signed(note)
    named = Checkpoints.of("another", key).note(head).encode()
    assert parse_checkpoint(named).origin == "another" and key.public_key.has_signed(named)


@pytest.mark.parametrize("origin", ["two\nlines", "tab\t", "\u2028"])
def test_an_origin_is_one_line(origin):
    """It must not bring lines of its own."""
    with pytest.raises(BadNote, match="origin"):
        Checkpoints.of(origin, None)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n",
        f"eventjobs\n1\n{ROOT[:-4]}\n",
        f"eventjobs\n1\n{ROOT[:-2]}V=\n",
        "eventjobs\n1\nnot base64\n",
        f"eventjobs\n-1\n{ROOT}\n",
        f"eventjobs\n01\n{ROOT}\n",
        f"eventjobs\n1.0\n{ROOT}\n",
        f"eventjobs\n1_0\n{ROOT}\n",
        f"eventjobs\n9999999999999999999\n{ROOT}\n",
        f"\n1\n{ROOT}\n",
        f"eventjobs\n1\n\n{ROOT}\n",
        f"eventjobs\n{ROOT}\n1\n",
        '{"size": 1}',
    ],
)
def test_what_is_no_checkpoint_is_refused(note):
    """Nothing is guessed: a head that is read wrongly would be worse than none."""
    with pytest.raises(BadNote):
        parse_checkpoint(note.encode())
