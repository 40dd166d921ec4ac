"""Runs a command with a PostgreSQL of its own: python -m eventjobs.testing.with_postgres COMMAND ..., where {} stands
for the URL of an empty database. The server goes when the command ends; the exit code is the command's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from eventjobs.testing.postgres import PostgresServer


def main(command: Sequence[str]) -> int:
    """Run the command; its exit code."""
    with PostgresServer.start() as server:
        url = server.new_database()
        try:
            return subprocess.run([part.replace("{}", url) for part in command], check=False).returncode
        finally:
            server.drop_database(url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
