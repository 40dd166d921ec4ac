"""Heads and proofs as the wire shows them. The form is the same wherever a proof comes from."""

from __future__ import annotations

import base64
from typing import Protocol

from eventjobs.api.render import Document
from eventjobs.api.view import Head, View

ORIGIN_DEFAULT = "eventjobs"


class Notes(Protocol):
    """Makes the text of a head that is kept elsewhere: a C2SP checkpoint of the log named `origin`, perhaps signed."""

    origin: str

    def note(self, head: Head) -> str: ...


class PlainNotes:
    """Checkpoints without a signature, of a log that nobody named."""

    origin = ORIGIN_DEFAULT

    def note(self, head: Head) -> str:
        return f"{self.origin}\n{head.size}\n{base64.b64encode(head.root).decode()}\n\n"


def inclusion_document(view: View, position: int, size: int) -> Document:
    """The record at a position, as it is stored, and what shows that it is among the first `size`."""
    return {
        "type": "inclusion",
        "position": position,
        "record": view.record_text(position).decode(),
        "head": _head(view, size),
        "hashes": _texts(view.inclusion_proof(position, size)),
    }


def consistency_document(view: View, old_size: int, size: int) -> Document:
    """What shows that the first `size` records begin with the first `old_size`."""
    return {
        "type": "consistency",
        "from": _head(view, old_size),
        "head": _head(view, size),
        "hashes": _texts(view.consistency_proof(old_size, size)),
    }


def _head(view: View, size: int) -> Document:
    return {"size": size, "root": base64.b64encode(view.root(size)).decode()}


def _texts(hashes: list[bytes]) -> list[str]:
    return [base64.b64encode(each).decode() for each in hashes]
