"""A pgbouncer before a PostgreSQL, in a process and a directory of its own.

with Pooler.before(url, mode="transaction") as pooler:
    ...  # coordinators use pooler.url_of(url)
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from eventjobs.testing.postgres import UNPRIVILEGED, answers
from eventjobs.testing.processes import ProgramProcess, free_port, wait_for

PROGRAM = "pgbouncer"
SETTINGS = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 200
server_login_retry = 0.1
query_wait_timeout = 5
"""
"""Nothing is forgiven: no startup parameters are ignored, and nothing is reset between two transactions."""


def find_pooler() -> str | None:
    """Where the program is, if it is installed."""
    return shutil.which(PROGRAM, path=os.environ.get("PATH", "") + ":/usr/sbin")


class Pooler:
    """Shares a few connections of a server out to many clients. As a context it is ended at the end."""

    def __init__(self, url: str, directory: Path, mode: str, connections: int) -> None:
        """Before the server of `url`, by its superuser, with so many connections a database."""
        parts = urlsplit(url)
        self.port = free_port()
        directory.mkdir(mode=0o755)
        users, settings = directory / "users.txt", directory / "pgbouncer.ini"
        users.write_text(f'"{parts.username}" ""\n')
        settings.write_text(
            SETTINGS.format(
                host=parts.hostname,
                port=parts.port,
                own_port=self.port,
                users=users,
                mode=mode,
                connections=connections,
            )
        )
        arguments = [find_pooler(), str(settings)]
        if os.geteuid() == 0:  # which it does not run as
            arguments[1:1] = ["-u", UNPRIVILEGED]
        self.process = ProgramProcess(arguments, directory / "log")
        try:
            wait_for(lambda: self._answers(url), "the pooler to answer")
        except BaseException:
            self.process.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send(signal.SIGINT)
        self.process.wait()

    def url_of(self, url: str) -> str:
        """The URL of a database of the server by way of the pooler."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self.port}"))

    def _answers(self, url: str) -> bool:
        assert self.process.running, f"the pooler ended:\n{self.process.text()}"
        return answers(self.url_of(url))
