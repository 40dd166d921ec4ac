"""Log lines that cannot be written: nobody is stopped by them, and their number is told."""

from __future__ import annotations

import errno
import io
import os
import threading

import pytest

from eventjobs.cli import log_stream
from eventjobs.cli.log_stream import LineStream

BOUND_SECONDS = 20.0


class Raw(io.RawIOBase):
    """Takes what is written, unless told otherwise: `steps` are an error, a number of bytes or None, one a write."""

    def __init__(self, *steps: OSError | int | None) -> None:
        self.steps = list(steps)
        self.taken = b""
        self.may_write = threading.Event()
        self.may_write.set()
        self.writes = threading.Event()

    def write(self, data: bytes) -> int | None:
        self.writes.set()
        assert self.may_write.wait(BOUND_SECONDS)
        step = self.steps.pop(0) if self.steps else len(data)
        if isinstance(step, OSError):
            raise step
        self.taken += data[: step or 0]
        return step


def lost(count: int) -> str:
    return f"lost {count}"


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_lines_that_cannot_be_written_are_counted_and_told(code: int) -> None:
    """Errors reach nobody; the next line that can be written comes after the number of those that could not."""
    error = OSError(code, os.strerror(code))
    raw = Raw(error, error, error)  # a line, then the next one's report and the line itself
    stream = LineStream(raw, lost)
    for line in ("a\n", b"b\n", "c\n", "d \ud800\n"):
        stream.write(line)
    stream.close()
    assert raw.taken == b"lost 2\nc\nd \\ud800\n"


def test_losses_are_told_at_the_end() -> None:
    """When no line follows, the number of the lost ones is the last thing written."""
    raw = Raw(OSError(errno.ENOSPC, "full"))
    stream = LineStream(raw, lost)
    stream.write("a\n")
    stream.close()
    assert raw.taken == b"lost 1\n"


@pytest.mark.parametrize("end", [OSError(errno.ENOSPC, "full"), None, 0])
def test_a_line_after_a_part_of_one_begins_anew(end: OSError | int | None) -> None:
    """Short writes are continued; when the rest does not fit, the line counts as lost and is closed."""
    raw = Raw(3, 1, end)
    stream = LineStream(raw, lost)
    stream.write("abcdefgh\n")
    stream.write("next\n")
    stream.close()
    assert raw.taken == b"abcd\nlost 1\nnext\n"


def test_a_reader_that_stands_still_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait up to a bound, those on top of it are lost and counted, and all goes on when the reader does."""
    monkeypatch.setattr(log_stream, "WAITING_BYTES_MAX", 4)
    raw = Raw()
    raw.may_write.clear()
    stream = LineStream(raw, lost)
    stream.write("a\n")
    assert raw.writes.wait(BOUND_SECONDS)
    for _ in range(3):
        stream.write("b\n")
    raw.may_write.set()
    stream.close()
    assert raw.taken == b"a\nlost 2\nb\n"


def test_the_end_does_not_wait_for_a_reader_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing takes its time at most, and then a line is still no obstacle."""
    monkeypatch.setattr(log_stream, "CLOSE_SECONDS", 0.01)
    raw = Raw()
    raw.may_write.clear()
    stream = LineStream(raw, lost)
    stream.write("a\n")
    stream.close()
    assert stream._thread.is_alive()
    stream.write("b\n")
    raw.may_write.set()
    stream._thread.join(BOUND_SECONDS)


def test_what_is_logged_after_the_end_is_written_at_once() -> None:
    """Whatever ends after the stream can still tell."""
    raw = Raw()
    stream = LineStream(raw, lost)
    stream.close()
    stream.write("late\n")
    assert raw.taken == b"late\n"
