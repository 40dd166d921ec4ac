"""Event streams are cut into messages, wherever the network cut the bytes."""

from __future__ import annotations

import pytest

from eventjobs.client.stream import Messages

STREAM = (
    b': hello\n\nid: 1\nevent: a\ndata: {"n": 1}\n\n: ping\n\n'
    b"id: 2\r\ndata:{\r\ndata: }\r\n\r\nretry: 5\n\ndata: last\n\n"
)
DATA = [b'{"n": 1}', b"{\n}", b"last"]


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_chunks_of_any_size_give_the_same_messages(size):
    """Comments, ids and messages without data are passed over."""
    messages = Messages()
    chunks = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [data for chunk in chunks for data in messages.feed(chunk)] == DATA


def test_half_a_message_is_not_a_message():
    """What a broken connection left unfinished is not handed out."""
    messages = Messages()
    assert list(messages.feed(b'id: 3\ndata: {"n": 3}\n')) == []
