"""Check a proof from an eventjobs log against a head that was kept. Needs Python alone: copy this file and use it.

    python3 check_proof.py PROOF HEAD             is the record of PROOF in the log that HEAD stands for?
                                                  or: does the log of PROOF begin with the one that HEAD stands for?
    python3 check_proof.py PROOF HEAD NEW_HEAD    the same, and is the log of PROOF the one that NEW_HEAD stands for?

PROOF is what `eventjobs prove` or GET /log/proof gives (JSON). HEAD and NEW_HEAD are what `eventjobs head` or GET
/log/head gave: a name, a size, a root. HEAD must come from where the log's owner could not change it.

Exit codes: 0 the proof holds, 1 it does not, 2 something could not be read.

It is checked as RFC 9162, sections 2.1.3.2 and 2.1.4.2, says. The signature of a head is not looked at, as Python's
standard library has no Ed25519: check it with `eventjobs verify --public-key`, or any tool for c2sp.org/signed-note.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path


class Wrong(Exception):
    """The proof does not hold. The text says why."""


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def included(record: bytes, position: int, size: int, hashes: list[bytes], root: bytes) -> bool:
    """Whether the record is at the position (from 1) in the log of this size and root."""
    if not 1 <= position <= size:
        return False
    place, last, found = position - 1, size - 1, hashlib.sha256(b"\x00" + record).digest()
    for each in hashes:
        if last == 0:
            return False
        if place % 2 == 1 or place == last:
            found = _node(each, found)
            while place % 2 == 0 and place != 0:
                place, last = place // 2, last // 2
        else:
            found = _node(found, each)
        place, last = place // 2, last // 2
    return last == 0 and found == root


def begins_with(old_size: int, old_root: bytes, size: int, root: bytes, hashes: list[bytes]) -> bool:
    """Whether the log of this size and root begins with the one of the old size and root."""
    if old_size == size:
        return old_root == root and not hashes
    if old_size == 0:
        return old_root == hashlib.sha256(b"").digest() and not hashes
    if not 0 < old_size < size or not hashes:
        return False
    if old_size & (old_size - 1) == 0:
        hashes = [old_root, *hashes]
    place, last, old, new = old_size - 1, size - 1, hashes[0], hashes[0]
    while place % 2 == 1:
        place, last = place // 2, last // 2
    for each in hashes[1:]:
        if last == 0:
            return False
        if place % 2 == 1 or place == last:
            old, new = _node(each, old), _node(each, new)
            while place % 2 == 0 and place != 0:
                place, last = place // 2, last // 2
        else:
            new = _node(new, each)
        place, last = place // 2, last // 2
    return last == 0 and old == old_root and new == root


def _read_hash(text: str) -> bytes:
    found = base64.b64decode(text, validate=True)
    if len(found) != 32:
        raise ValueError(f"{text} is no SHA-256")
    return found


def _read_head(path: str) -> tuple[int, bytes]:
    """Size and root of a checkpoint: its second and third line."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    if len(lines) < 3 or not lines[0] or not (lines[1].isascii() and lines[1].isdigit()):
        raise ValueError(f"{path} is no head: a name, a size and a root, each on a line")
    return int(lines[1]), _read_hash(lines[2])


def check(proof: dict, head: tuple[int, bytes], new_head: tuple[int, bytes] | None) -> str:
    """What the proof shows, in words. Raises Wrong when it does not hold, and other errors for what is no proof."""
    hashes = [_read_hash(each) for each in proof["hashes"]]
    size, root = int(proof["head"]["size"]), _read_hash(proof["head"]["root"])
    if new_head is not None and new_head != (size, root):
        raise Wrong("the proof is about another log than the new head")
    if proof["type"] == "consistency":
        if head != (int(proof["from"]["size"]), _read_hash(proof["from"]["root"])):
            raise Wrong("the proof begins at another log than the head that was kept")
        if not begins_with(*head, size, root, hashes):
            raise Wrong("the log does not begin with the one of the head that was kept")
        return f"the log of {size} records begins with the {head[0]} of the head; root {proof['head']['root']}"
    if proof["type"] != "inclusion":
        raise ValueError(f"a proof of the type {proof['type']} is not known here")
    if head != (size, root):
        raise Wrong("the proof is about another log than the head that was kept")
    position, record = int(proof["position"]), proof["record"]
    if not included(record.encode(), position, size, hashes, root):
        raise Wrong(f"this record is not at position {position} of the log of the head that was kept")
    return f"this record is at position {position} of the {size} of the head\n{record}"


def main(arguments: list[str]) -> int:
    """Check, say what came out, and give the exit code."""
    if len(arguments) not in (2, 3):
        sys.stderr.write(__doc__)
        return 2
    try:
        proof = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        heads = [_read_head(path) for path in arguments[1:]]
        said = check(proof, heads[0], heads[1] if len(heads) == 2 else None)
    except Wrong as wrong:
        sys.stdout.write(f"DOES NOT HOLD: {wrong}\n")
        return 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"cannot be read: {error!r}\n")
        return 2
    sys.stdout.write(f"holds: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
