"""Runs a command with a PostgreSQL of its own: python -m eventjobs.testing.with_postgres COMMAND ..., where {} stands
for the URL of an empty database. The server goes when the command ends; the exit code is the command's, or 128 and the
number of the signal that ended it. SIGTERM is passed on to the command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from eventjobs.testing.postgres import PostgresServer

ENDED = 128 + signal.SIGTERM


class Command:
    """The command, which SIGTERM asks to end. One that was not started yet when it came is not started."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = False

    def end(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        self._ended = True
        if self._child is not None:
            self._child.terminate()

    def run(self, arguments: Sequence[str]) -> int:
        """Its exit code."""
        if self._ended:
            return ENDED
        self._child = subprocess.Popen(arguments)
        if self._ended:  # it came in between, and found no child
            self._child.terminate()
        try:
            code = self._child.wait()
        except BaseException:
            self._child.kill()
            self._child.wait()
            raise
        return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code."""
    command = Command()
    signal.signal(signal.SIGTERM, command.end)
    with PostgresServer.start() as server:
        url = server.new_database()
        try:
            return command.run([part.replace("{}", url) for part in arguments])
        finally:
            server.drop_database(url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
