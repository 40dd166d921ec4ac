"""Digests of users' texts: texts of any length in keys of a fixed one."""

from __future__ import annotations

import hashlib

from eventjobs.store.indexes import text_digest


def test_a_digest_is_that_of_the_specification():
    """Each text is hashed as its length in bytes, a colon and its UTF-8 bytes."""
    assert text_digest("order-1") == hashlib.sha256(b"7:order-1").digest()
    assert text_digest("wörker", "") == hashlib.sha256("7:wörker0:".encode()).digest()


def test_texts_do_not_run_together():
    """A worker and request that only together read like another pair have a digest of their own."""
    assert text_digest("ab", "c") != text_digest("a", "bc")
    assert text_digest("a", "1:b") != text_digest("a1", ":b")
