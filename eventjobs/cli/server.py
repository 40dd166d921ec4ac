"""A coordinator in its process: store, coordinator and HTTP server, opened and closed in the right order."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from attrs import frozen

from eventjobs.api.app import RUNNER_OPTIONS, build_app
from eventjobs.cli import exits
from eventjobs.cli.in_force import settings_lines
from eventjobs.cli.signals import StopSignals
from eventjobs.cli.stores import Store
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.retention import NO_RULES, Rules
from eventjobs.store.checkpoint import Checkpoints
from eventjobs.store.contract import AlreadyOpen, StoreError

BACKLOG = 1024
"""Connections that may wait to be accepted."""
FINISH_SECONDS = 10
"""How long requests that came in may take to be answered when the coordinator stops."""
SWITCH_SECONDS = 0.001
"""How long one of the two busy threads, event loop and writer, may keep the other waiting (the default is 5 ms): the
writer gives the interpreter up at each flush and wants it back soon."""


@frozen
class Server:
    """What to serve, and where. `archive_after` is the age in microseconds at which records of a store in a directory
    go to the archive, None for never; `notes` writes the log's head.

    `say` takes lines for people, which must neither stop nor end a coordinator that nobody listens to."""

    store: Store
    host: str
    port: int
    port_file: Path | None
    archive_after: int | None
    notes: Checkpoints
    say: Callable[[str], None]
    retention: Rules = NO_RULES

    async def run(self) -> None:
        """Serve until a signal comes. Raises CannotServe at the start, CoordinatorFailed later."""
        sys.setswitchinterval(SWITCH_SECONDS)
        coordinator = await self._start()
        _leave_out_of_garbage_collection()
        stop = StopSignals()
        app = build_app(coordinator, notes=self.notes)
        runner = web.AppRunner(app, **RUNNER_OPTIONS, shutdown_timeout=FINISH_SECONDS)
        try:
            await runner.setup()
            await self._listen(runner)
            failure = await _first_of(stop, coordinator)
            coordinator.drain()
        finally:
            await runner.cleanup()
            await coordinator.stop()
        self._remove_port_file()
        if failure is not None:
            raise exits.CoordinatorFailed(f"the store failed: {failure}; start the coordinator again")
        self.say("eventjobs: stopped\n")

    async def _start(self) -> Coordinator:
        try:
            if not self.store.served_by_another():  # else the port file is that of the coordinator that has it
                self._check_address()  # before anything is made on disk
                self._remove_port_file()
            engine = self.store.open()
            try:
                coordinator = await Coordinator.start(engine, retention=self.retention)
            except BaseException:
                engine.close()
                raise
        except AlreadyOpen as error:
            raise exits.CannotServe(f"{error}, or give this one a data directory of its own") from error
        except StoreError as error:
            raise exits.CannotServe(str(error)) from error
        if self.archive_after is not None:
            coordinator.archive(engine, self.archive_after)
        return coordinator

    def _check_address(self) -> None:
        """Raises CannotServe where nobody could listen now, on the port of another coordinator for instance."""
        try:
            found = socket.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in found:
                with socket.socket(family, kind, protocol) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    probe.bind(address)
        except OSError as error:
            raise self._cannot_listen(error) from error

    def _cannot_listen(self, error: OSError) -> exits.CannotServe:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        if error.errno == errno.EADDRINUSE:
            reason = f"{reason}; is a coordinator running already? --port takes another"
        return exits.CannotServe(f"cannot listen on {self.host} port {self.port}: {reason}")

    async def _listen(self, runner: web.AppRunner) -> None:
        """Listen, and tell where: on standard error and in the port file."""
        try:
            await web.TCPSite(runner, self.host, self.port, backlog=BACKLOG).start()
        except OSError as error:
            raise self._cannot_listen(error) from error
        addresses = [(address[0], address[1]) for address in runner.addresses]
        self.say(f"eventjobs: serving on {_url(*addresses[0])}, data in {self.store}\n")
        for line in settings_lines(self.retention, self.archive_after, self.notes):
            self.say(f"eventjobs: {line}\n")
        if not all(ipaddress.ip_address(host).is_loopback for host, _ in addresses):
            self.say("eventjobs: warning: no authentication: whoever reaches this address controls the jobs\n")
        if self.port_file is not None:
            try:
                _write_whole(self.port_file, f"{addresses[0][1]}\n")
            except OSError as error:
                raise exits.CannotServe(f"cannot write {self.port_file}: {error.strerror}") from error

    def _remove_port_file(self) -> None:
        """A port file stands for a coordinator that answers."""
        if self.port_file is not None:
            try:
                self.port_file.unlink(missing_ok=True)
            except OSError as error:
                raise exits.CannotServe(f"cannot remove the old {self.port_file}: {error.strerror}") from error


def _leave_out_of_garbage_collection() -> None:
    """What is there at the start stays; there is no use in looking through it for garbage again and again.

    How often that is looked for is left as it is: an upload that broke off leaves its bytes in a cycle.
    """
    gc.collect()
    gc.freeze()


async def _first_of(stop: StopSignals, coordinator: Coordinator) -> BaseException | None:
    """Wait until a signal asks to stop (None) or the coordinator failed (the error)."""
    asked = asyncio.ensure_future(stop.asked.wait())
    failed = asyncio.ensure_future(coordinator.failed())
    await asyncio.wait((asked, failed), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    failed.cancel()
    return failed.result() if failed.done() else None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_whole(path: Path, text: str) -> None:
    """Write so that a reader sees the whole text or no file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)
