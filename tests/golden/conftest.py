"""A golden store, taken out of its folder."""

from __future__ import annotations

import gzip
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "answers.json").exists())


class Golden:
    """The files of a folder; `data` is a directory with the store in it, for the test alone."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.export, self.head, self.public_key = folder / "export.jsonl", folder / "head", folder / "head.key.pub"
        self.data = data
        self.name, self._folder = folder.name, folder
        data.mkdir()
        (data / "data.mdb").write_bytes(gzip.decompress((folder / "data.mdb.gz").read_bytes()))

    @cached_property
    def answers(self) -> dict[str, Any]:
        """What the version that wrote it said."""
        return json.loads((self._folder / "answers.json").read_text())


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    """Each of them."""
    return Golden(request.param, tmp_path / "data")
