"""The worker's own face: settings, names, and mistakes that are told at once."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys

import pytest

from eventjobs import Worker
from eventjobs.client import InvalidValue
from eventjobs.worker.worker import _name


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"concurrency": 10_001},
        {"lease_seconds": 0.05},
        {"lease_seconds": 86_401},
        {"poll_seconds": 61},
        {"grace_seconds": -1},
        {"queues": []},
    ],
)
def test_settings_out_of_bounds_are_refused(settings):
    """A worker that cannot work is not made."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        Worker(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": "3"},
        {"concurrency": 2.5},
        {"concurrency": True},
        {"lease_seconds": "30"},
        {"grace_seconds": None},
        {"poll_seconds": "20"},
        {"name": 7},
        {"coordinator": 8484},
        {"queues": 3},
        {"queues": [3]},
    ],
)
def test_settings_of_the_wrong_type_are_named(settings):
    """In words, and not with what Python says of a comparison."""
    name = next(iter(settings))
    with pytest.raises((TypeError, InvalidValue), match=f"^{name} is "):
        Worker(**settings)


def test_a_text_is_no_list_of_queues():
    """Its letters would be the queues."""
    with pytest.raises(InvalidValue, match="queues is a list of names, unlike 'fetch'"):
        Worker(queues="fetch")
    with pytest.raises(InvalidValue, match="queues is a list of names, unlike 'fetch'"):
        Worker().configure(queues="fetch")


def test_a_handler_needs_a_kind():
    """A decorator without its parentheses is told what it lacks."""
    worker = Worker()
    with pytest.raises(TypeError, match=r'^handler needs a kind: @worker.handler\("resize"\)$'):

        @worker.handler
        def resize(job):
            """Nothing."""

    with pytest.raises(TypeError, match="handler needs a kind"):
        worker.handler(7)


@pytest.mark.parametrize("url", ["127.0.0.1:8484", "ftp://host", "http://", "", "http://host?x=1"])
def test_a_wrong_address_is_told_when_the_worker_is_made(url):
    """And not when it runs."""
    with pytest.raises(InvalidValue, match="not an address"):
        Worker(url)


async def test_a_worker_without_handlers_does_not_run():
    """It would ask for nothing, for ever."""
    with pytest.raises(ValueError, match="no handler"):
        await Worker().serve()


def test_a_worker_runs_once_at_a_time(play):
    """Two loops over one worker would take jobs twice."""

    async def scene(stage):
        stage.worker.handler("work")(lambda job: None)
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.leases)
        with pytest.raises(RuntimeError, match="running already"):
            await stage.worker.serve()

    play(scene)


def test_names_differ_by_process_and_chance():
    """A name is made when the worker starts, so that forked processes have their own."""
    one, other = _name(random.Random(1)), _name(random.Random(2))
    assert one != other
    assert f"-{os.getpid()}-" in one


async def test_stopping_an_idle_object_is_nothing():
    """There is nothing to wait for."""
    async with asyncio.timeout(5):
        assert await Worker().stop() is None


def test_the_worker_loads_no_store():
    """An application that only runs jobs never loads lmdb or the coordinator."""
    code = "import sys, eventjobs; eventjobs.Worker, eventjobs.Client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "eventjobs.worker.worker" in loaded
    assert [name for name in loaded if name.startswith(("lmdb", "eventjobs.store", "eventjobs.coordinator"))] == []


def test_everything_named_at_the_top_is_there():
    """`from eventjobs import *` works, and a name that is not there is an AttributeError."""
    import eventjobs

    assert all(getattr(eventjobs, name) is not None for name in eventjobs.__all__)
    assert set(dir(eventjobs)) == set(eventjobs.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        _ = eventjobs.Broker
