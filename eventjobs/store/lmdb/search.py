"""Searching so that a damaged key is no absent one.

The checksum of a row covers its key, so a damaged key is found as soon as its row is looked at. But a search for the
key that was there does not look at that row: it ends beside it and finds nothing. Therefore a search that does not find
its key looks at the rows that it ended between. Both must be whole, and the key must belong between them: a row whose
key was damaged lies where it used to lie, and a search that was led astray above the rows ends out of order.
"""

from __future__ import annotations

import lmdb

from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt


def seek(cursor: lmdb.Cursor, key: bytes, where: str) -> bool:
    """Set the cursor on the first row at or above a key, as Cursor.set_range does; whether there is one.

    Raises Corrupt, naming `where`, when there may be another row between this one and the one below the key.
    """
    above = cursor.set_range(key)
    if above:
        found, stored = cursor.item()
        if found == key:
            return True
        unseal(found, stored, where)
        if found < key:
            raise _astray(key, where)
        if not cursor.prev():
            return cursor.first()
    elif not cursor.last():
        return False
    found, stored = cursor.item()
    unseal(found, stored, where)
    if found >= key:
        raise _astray(key, where)
    return cursor.next()


def seek_below(cursor: lmdb.Cursor, key: bytes | None, where: str) -> bool:
    """Set the cursor on the last row below a key, on the very last for None; whether there is one. Raises Corrupt."""
    if key is None or not seek(cursor, key, where):
        return cursor.last()
    return cursor.prev()


def look_up(txn: lmdb.Transaction, database: object, key: bytes, where: str) -> bytes | None:
    """The value under a key, None when there is none. Raises Corrupt when it, or its absence, cannot be trusted."""
    stored = txn.get(key, db=database)
    if stored is not None:
        return unseal(key, stored, where)
    with txn.cursor(db=database) as cursor:
        return absent(cursor, key, where)


def absent(cursor: lmdb.Cursor, key: bytes, where: str) -> None:
    """None, for a key that was not found. Raises Corrupt when its absence cannot be trusted."""
    if seek(cursor, key, where) and cursor.key() == key:
        raise _astray(key, where)


def _astray(key: bytes, where: str) -> Corrupt:
    return Corrupt(f"{where}: looking for key {key.hex()} leads astray: the rows around it are out of order")
