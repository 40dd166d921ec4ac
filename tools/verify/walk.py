"""Walking the log: every record's checksum, and positions without a gap. The log comes in blocks of 256 records."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from itertools import islice
from zlib import crc32

from attrs import frozen

from eventjobs.store.codec import CRC_BYTES
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.snapshot import Snapshot
from eventjobs.store.lmdb.tables import key_position
from eventjobs.store.merkle import NODE_LEVELS
from eventjobs.tools.verify.report import Check

BLOCK = 1 << NODE_LEVELS
"""Records in a block."""
POSITION_BYTES = 8

_KEYS = struct.Struct(f">{BLOCK}Q")


@frozen
class Block:
    """Up to 256 records: the position of the first, and of each its text and its leaf hash.

    A text is None where there is none that can be trusted, a leaf where there is no record at all.
    """

    first: int
    texts: list[bytes | None]
    leaves: list[bytes | None]

    @property
    def last(self) -> int:
        return self.first + len(self.texts) - 1


class LogWalk:
    """Goes through the log once. `size` is what its head says, None when that is not known; faults go to `check`.

    Afterwards `end` is the last position at which there is a record, and `read` how many have the right checksum.
    """

    def __init__(self, snapshot: Snapshot, size: int | None, check: Check) -> None:
        self._snapshot, self._size, self._check = snapshot, size, check
        self._rows: Iterator[tuple[bytes, bytes]] | None = None
        self._ahead: list[tuple[bytes, bytes]] = []
        self.end = 0
        self.read = 0

    def blocks(self) -> Iterator[Block]:
        """The blocks in order, each whole but the last; none where 256 positions or more are missing together."""
        first = 1
        while (found := self._take(first)) is not None:
            if self._ahead and not any(found):
                following = (key_position(self._ahead[0][0]) - 1) // BLOCK * BLOCK + 1
                self._missing(first, following - 1)
                first = following
                continue
            yield self._block(first, found)
            first += BLOCK
        if self._size is None or self.end == self._size:
            return
        if self.end < self._size:
            text = f"the log ends at position {self.end}, but its head says {self._size}"
            self._check.fault("log_cut", text, self.end + 1)
        else:
            text = f"the log goes on to position {self.end}, but its head says {self._size}"
            self._check.fault("log_prolonged", text, self._size + 1)

    def _take(self, first: int) -> list[bytes | None] | None:
        """What is stored at the next 256 positions, with None in the gaps; None after the end."""
        try:
            if self._rows is None:
                self._rows = self._snapshot.log_rows(first)
            rows = [*self._ahead, *islice(self._rows, BLOCK - len(self._ahead))]
        except Corrupt as error:
            self._rows, self._ahead = None, []
            return self._one_by_one(first, error)
        self._ahead = []
        if len(rows) == BLOCK and b"".join([key for key, _ in rows]) == _KEYS.pack(*range(first, first + BLOCK)):
            return [stored for _, stored in rows]
        found = self._by_place(first, rows)
        while None in found and not self._ahead and (row := next(self._rows, None)) is not None:
            self._place(first, row, found)
        if len(rows) < BLOCK and not self._ahead:
            while found and found[-1] is None:
                found.pop()
        return found or None

    def _by_place(self, first: int, rows: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        found: list[bytes | None] = [None] * BLOCK
        for row in rows:
            self._place(first, row, found)
        return found

    def _place(self, first: int, row: tuple[bytes, bytes], found: list[bytes | None]) -> None:
        key, stored = row
        if len(key) != POSITION_BYTES or key_position(key) < first:
            self._check.fault("foreign_key", f"a record lies under {key.hex()}, which is no position")
        elif key_position(key) < first + BLOCK:
            found[key_position(key) - first] = stored
        else:
            self._ahead.append(row)

    def _one_by_one(self, first: int, error: Corrupt) -> list[bytes | None] | None:
        """The walk cannot go on here: what of these positions can be reached from above."""
        if self._size is None or first > self._size:
            self._check.fault("unreadable", f"from position {first} on the log cannot be read: {error}", first)
            return None
        if first <= self._snapshot.archived:
            self._check.fault("archive_damaged", str(error), first)
        found: list[bytes | None] = []
        for position in range(first, min(first + BLOCK, self._size + 1)):
            try:
                found.append(self._snapshot.log_row(position))
            except Corrupt:
                found.append(None)
        return found

    def _block(self, first: int, found: list[bytes | None]) -> Block:
        sha256, to_bytes = hashlib.sha256, int.to_bytes
        texts: list[bytes | None] = []
        leaves: list[bytes | None] = []
        for position, stored in enumerate(found, first):
            if stored is None:
                texts.append(None)
                leaves.append(None)
                continue
            text = stored[CRC_BYTES:]
            leaves.append(sha256(b"\x00" + text).digest())
            if to_bytes(crc32(text, crc32(to_bytes(position, 8, "big"))), 4, "big") == stored[:CRC_BYTES]:
                texts.append(text)
            else:
                self._check.fault("record_damaged", f"position {position} does not match its checksum", position)
                texts.append(None)
        self.read += len(texts) - texts.count(None)
        if None in leaves:
            self._tell_of_gaps(first, leaves)
        beyond = next((place for place, leaf in enumerate(reversed(leaves)) if leaf is not None), None)
        if beyond is not None:
            self.end = first + len(leaves) - 1 - beyond
        return Block(first, texts, leaves)

    def _tell_of_gaps(self, first: int, leaves: list[bytes | None]) -> None:
        begin = None
        for position, leaf in enumerate([*leaves, b""], first):
            if leaf is None and begin is None:
                begin = position
            elif leaf is not None and begin is not None:
                self._missing(begin, position - 1)
                begin = None

    def _missing(self, first: int, last: int) -> None:
        where = f"position {first} is" if first == last else f"positions {first} to {last} are"
        self._check.fault("record_missing", f"{where} missing, or cannot be reached", first)
