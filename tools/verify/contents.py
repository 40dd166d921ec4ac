"""Payloads, results and errors, each held against the digest in the record that brought it.

A content that is not there must have been erased by a later record; one that a record says was erased must not be
there. Which are absent is remembered in one bit a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from eventjobs.domain import events as e
from eventjobs.domain.content import SALT_BYTES, ContentDigest
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.tables import CONTENTS, position_key
from eventjobs.tools.verify.report import Check, counted

CONTENT_FIELDS = {e.JobEnqueued: "payload", e.JobCompleted: "result", e.AttemptFailed: "error", e.JobDied: "error"}
"""The events that may bring a content, and which field of theirs has its digest."""
ERASING = (e.ContentsErased, e.JobRetired)
"""The events that say of contents that they are gone."""


class _Places:
    """A set of positions, in one bit each up to the highest."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, position: int) -> None:
        place = position >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << (position & 7)

    def take(self, position: int) -> bool:
        """Whether the position was in; it is not any more."""
        place, bit = position >> 3, 1 << (position & 7)
        if position < 0 or place >= len(self._bits) or not self._bits[place] & bit:
            return False
        self._bits[place] ^= bit
        return True

    def __iter__(self) -> Iterator[int]:
        for place, bits in enumerate(self._bits):
            if bits:
                yield from (place << 3 | bit for bit in range(8) if bits & 1 << bit)


class ContentWalk:
    """Goes through the contents in step with the log: both are ordered by position."""

    ALTERED = "is not the one recorded: altered, its checksum put right"

    def __init__(self, rows: Iterator[tuple[bytes, bytes]], check: Check) -> None:
        """`rows` are keys and values as the store has them."""
        self._rows, self._check = rows, check
        self._row: tuple[bytes, bytes] | None = None
        self._matching = self._missing = self._erased = 0
        self._absent = {name: _Places() for name in ("payload", "result", "error")}
        self._unknown: set[int] = set()
        """Positions of records that cannot be read."""
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
        """The next record: its content must be there, or be erased later on, and be the one it speaks of."""
        name = CONTENT_FIELDS.get(type(event))
        if name is None and type(event) in ERASING:
            self._erase(position, event)
        if self._broken:
            return
        digest = None if name is None else getattr(event, name)
        key = position_key(position)
        while self._row is not None and self._row[0] < key:
            self._stray()
        if self._row is None or self._row[0] != key:
            if digest is not None:
                self._absent[name].add(position)
        elif digest is None:
            self._stray()
        else:
            self._compare(position, name, digest)

    def unknown(self, position: int) -> None:
        """The next record cannot be read: whether it has a content is not known."""
        self._unknown.add(position)
        key = position_key(position)
        while self._row is not None and self._row[0] < key:
            self._stray()
        if self._row is not None and self._row[0] == key:
            self._step()

    def finish(self, whole: bool) -> None:
        """After the last record: nothing must be left. In a log that is not `whole` a record may be lost that would say
        of a content that is not there that it was erased."""
        while self._row is not None:
            self._stray()
        if not whole and any(any(places) for places in self._absent.values()):
            self._check.leave(
                "contents that are not there may be erased, by records that are lost or could not be read"
            )
            self._absent.clear()
        for position, name in sorted((place, name) for name, places in self._absent.items() for place in places):
            self._missing += 1
            text = f"the {name} of position {position} is missing; no record says that it was erased"
            self._check.fault("content_missing", text, position)
        self._check.facts = f"the digests of {counted(self._matching, 'content')} match"
        if self._erased:
            self._check.facts += f", {self._erased:,} erased"
        if self._missing:
            self._check.facts += f", {self._missing:,} missing"

    def _erase(self, position: int, event: e.ContentsErased | e.JobRetired) -> None:
        """What an event says is gone must not have been met."""
        for erased in e.erased_positions(event):
            if any(places.take(erased) for places in self._absent.values()):
                self._erased += 1
            elif not self._broken and erased not in self._unknown:
                text = (
                    f"position {position} says that the content of position {erased} was erased, but it was met there"
                )
                self._check.fault("content_not_erased", text, position)

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
            if sha256(value).hexdigest() == digest.sha256 and len(value) - SALT_BYTES == digest.size:
                self._matching += 1
            else:
                text = f"the {name} of position {position} {self.ALTERED}"
                self._check.fault("content_altered", text, position)
        self._step()
