"""What the tests of the wire contract share: the contract as written in specs/, and a coordinator to hold it to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml

from eventjobs.testing.processes import CoordinatorProcess

ROOT = Path(__file__).parents[2]
METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
ANSWER_SECONDS_MAX = 20


@pytest.fixture(scope="session")
def specs() -> Path:
    """The folder of the specifications."""
    return ROOT / "specs"


@pytest.fixture(scope="session")
def contract(specs: Path) -> dict:
    """specs/openapi.yaml, parsed."""
    return yaml.safe_load((specs / "openapi.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def operations(contract: dict) -> dict[tuple[str, str], dict]:
    """Every operation of the contract by (METHOD, path)."""
    return dict(_operations(contract))


def _operations(contract: dict) -> Iterator[tuple[tuple[str, str], dict]]:
    for path, item in contract["paths"].items():
        for method in METHODS & item.keys():
            yield (method.upper(), path), item[method]


class Api(requests.Session):
    """A coordinator as a plain HTTP client sees it. Each job it makes has a queue of its own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self._queues = itertools.count(1)

    def request(self, method: str, url: str, **more: object) -> requests.Response:
        """As requests does it, with paths for urls and a bound on waiting."""
        more.setdefault("timeout", ANSWER_SECONDS_MAX)
        return super().request(method, url if url.startswith("http") else self.url + url, **more)

    def waiting(self, **more: object) -> dict:
        """A job that waits."""
        queue = f"own-{next(self._queues)}"
        answer = self.post("/jobs", json={"kind": "k", "queue": queue, "payload": {"n": 1}, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def running(self, **more: object) -> dict:
        """A job that is leased."""
        job = self.waiting(**more)
        leased = self.post("/lease", json={"worker": "w", "queues": [job["queue"]]}).json()["jobs"]
        assert [each["id"] for each in leased] == [job["id"]]
        return leased[0]

    def dead(self) -> dict:
        """A job that was given up."""
        job = self.running(max_attempts=1)
        return self.post(f"/jobs/{job['id']}/fail", json={"token": job["lease_token"], "error": "boom"}).json()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A coordinator in a process of its own, for all tests of a module."""
    with CoordinatorProcess(tmp_path_factory.mktemp("contract")) as coordinator, Api(coordinator.url) as session:
        yield session
