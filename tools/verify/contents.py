"""Payloads, results and errors, each held against the digest in the record that brought it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from eventjobs.domain import events as e
from eventjobs.domain.content import SALT_BYTES, ContentDigest
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.tables import CONTENTS, position_key
from eventjobs.tools.verify.report import Check, counted

CONTENT_FIELDS = {e.JobEnqueued: "payload", e.JobCompleted: "result", e.AttemptFailed: "error", e.JobDied: "error"}
"""The events that may bring a content, and which field of theirs has its digest."""


class ContentWalk:
    """Goes through the contents in step with the log: both are ordered by position."""

    ALTERED = "is not the one recorded: altered, its checksum put right"

    def __init__(self, rows: Iterator[tuple[bytes, bytes]], check: Check) -> None:
        """`rows` are keys and values as the store has them."""
        self._rows, self._check = rows, check
        self._row: tuple[bytes, bytes] | None = None
        self._matching = self._missing = 0
        self._broken = False
        self._step()

    def _step(self) -> None:
        try:
            self._row = next(self._rows, None)
        except Corrupt as error:
            self._row, self._broken = None, True
            self._check.fault("unreadable", str(error))
            self._check.leave("the contents cannot be read to their end")

    def record(self, position: int, event: e.Event) -> None:
        """The next record: its content must be there and be the one it speaks of."""
        if self._broken:
            return
        name = CONTENT_FIELDS.get(type(event))
        digest = None if name is None else getattr(event, name)
        key = position_key(position)
        while self._row is not None and self._row[0] < key:
            self._stray()
        if self._row is None or self._row[0] != key:
            if digest is not None:
                self._missing += 1
                text = f"the {name} of position {position} is missing; no record says that it was erased"
                self._check.fault("content_missing", text, position)
        elif digest is None:
            self._stray()
        else:
            self._compare(position, name, digest)

    def unknown(self, position: int) -> None:
        """The next record cannot be read: whether it has a content is not known."""
        key = position_key(position)
        while self._row is not None and self._row[0] < key:
            self._stray()
        if self._row is not None and self._row[0] == key:
            self._step()

    def finish(self) -> None:
        """After the last record: nothing must be left."""
        while self._row is not None:
            self._stray()
        self._check.facts = f"the digests of {counted(self._matching, 'content')} match"
        if self._missing:
            self._check.facts += f", {self._missing:,} missing"

    def _stray(self) -> None:
        key = self._row[0].hex()
        self._check.fault("content_stray", f"a content lies under {key}, of which no record speaks")
        self._step()

    def _compare(self, position: int, name: str, digest: ContentDigest) -> None:
        key, stored = self._row
        try:
            value = unseal(key, stored, CONTENTS)
        except Corrupt:
            self._check.fault("content_damaged", f"the {name} of position {position} fails its checksum", position)
        else:
            if hashlib.sha256(value).hexdigest() == digest.sha256 and len(value) - SALT_BYTES == digest.size:
                self._matching += 1
            else:
                text = f"the {name} of position {position} {self.ALTERED}"
                self._check.fault("content_altered", text, position)
        self._step()
