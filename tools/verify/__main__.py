"""The verification in a process of its own.

What is to be done comes on standard input, what was found goes to standard output, both as JSON. Each line is
{"at": [what, done, total]}, {"report": ...} or {"cannot": why}; the last line is one of the last two.
"""

from __future__ import annotations

import base64
import gc
import os
import sys
import time
from pathlib import Path

import orjson

from eventjobs.store.contract import Head, StoreError
from eventjobs.tools.verify.verify import verify

TELL_SECONDS = 0.05


class Teller:
    """Writes lines; tells of progress now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def progress(self, what: str, done: int, total: int) -> None:
        """See verify.Progress."""
        now = time.monotonic()
        if now >= self._next or done in (0, total):
            self._next = now + TELL_SECONDS
            self.tell({"at": [what, done, total]})

    def tell(self, line: dict[str, object]) -> None:
        """Write a line at once."""
        sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    """Do what standard input says."""
    gc.disable()  # there are no cycles, and looking for them takes a tenth of the time
    wanted = orjson.loads(sys.stdin.buffer.read())
    kept = wanted["kept_head"]
    head = None if kept is None else Head(kept["size"], base64.b64decode(kept["root"]))
    teller = Teller()
    try:
        report = verify(Path(os.fsdecode(bytes.fromhex(wanted["store"]))), head, wanted["quick"], teller.progress)
    except StoreError as error:
        teller.tell({"cannot": os.fsencode(str(error)).decode("utf-8", "backslashreplace")})
    else:
        teller.tell({"report": report.document()})


if __name__ == "__main__":
    main()
