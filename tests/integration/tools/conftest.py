"""A store with a past, for the offline programs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live

MAP_SIZE = 64 << 20


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store, made once."""
    directory = tmp_path_factory.mktemp("template") / "data"
    engine = open_engine(directory, READ_MODELS, MAP_SIZE, force_filesystem=True)
    live(Driver(engine))
    engine.close()
    return directory


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """The directory of a copy of it for the test alone."""
    return shutil.copytree(template, tmp_path / "data")
