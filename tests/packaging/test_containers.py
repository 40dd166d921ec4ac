"""Dockerfile and compose.yaml, as far as they can be judged without an engine: they agree with the product."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from eventjobs.cli.main import cli
from eventjobs.domain.limits import URL_DEFAULT

ROOT = Path(__file__).parents[2]
PORT = URL_DEFAULT.rpartition(":")[2]


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: (name, rest)."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


@pytest.fixture(scope="module")
def last_stage(dockerfile) -> dict[str, str]:
    """The instructions of the image itself; of several by one name the last."""
    start = max(index for index, (name, _) in enumerate(dockerfile) if name == "FROM")
    return dict(dockerfile[start:])


@pytest.fixture(scope="module")
def compose() -> dict:
    """compose.yaml, parsed."""
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def check_command(arguments: list[str]) -> dict:
    """The parameters of a command line of eventjobs. Raises UsageError when an option or command does not exist."""
    command = cli.get_command(click.Context(cli), arguments[0])
    assert command is not None, f"there is no command {arguments[0]}"
    return command.make_context(arguments[0], arguments[1:]).params


def test_the_image_serves_by_default(last_stage):
    """Without a command the image runs the coordinator on the port and the volume that it declares."""
    assert json.loads(last_stage["ENTRYPOINT"]) == ["eventjobs"]
    options = check_command(json.loads(last_stage["CMD"]))
    assert options["host"] == "0.0.0.0"
    assert str(options["port"]) == last_stage["EXPOSE"] == PORT
    assert str(options["data"]) == last_stage["VOLUME"]


def test_the_image_runs_as_nobody_in_particular(dockerfile, last_stage):
    """The image does not run as root, and its user owns the volume before it is declared."""
    user = last_stage["USER"]
    names = [name for name, _ in dockerfile]
    prepared = " ".join(rest for name, rest in dockerfile if name == "RUN")
    assert user not in ("root", "0")
    assert re.search(rf"useradd .*\b{user}\b", prepared)
    assert re.search(rf"install -d -o {user} .*{last_stage['VOLUME']}\b", prepared)
    assert names.index("VOLUME") > max(index for index, name in enumerate(names) if name == "RUN")


def test_the_image_knows_whether_it_is_ready(last_stage):
    """The health check asks for readiness on the port that is served, with a program that runs."""
    command = json.loads(last_stage["HEALTHCHECK"].partition("CMD")[2])
    assert command[:2] == ["python", "-c"]
    assert ast.parse(command[2])
    assert f"http://127.0.0.1:{PORT}/readyz" in command[2]


def test_what_is_copied_exists_and_is_sent_to_the_engine(dockerfile):
    """Every path that the build copies is in the tree, and let through by .dockerignore."""
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        path.removeprefix("./")
        for name, rest in dockerfile
        if name == "COPY" and "--from" not in rest
        for path in shlex.split(rest)[:-1]
    }
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert copied == let_through


def test_every_service_runs_a_command_that_exists(compose):
    """The commands of compose.yaml are accepted by the command line."""
    commands = [service["command"] for service in compose["services"].values() if "command" in service]
    assert commands
    assert [command for command in commands if not check_command(command)] == []


def test_the_coordinator_is_published_to_this_machine_only(compose):
    """Without authentication the port must not be open to the network."""
    assert compose["services"]["coordinator"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert all("ports" not in service for name, service in compose["services"].items() if name != "coordinator")


def test_the_data_outlive_the_container(compose, last_stage):
    """The volume of the image is a named one."""
    assert compose["services"]["coordinator"]["volumes"] == [f"data:{last_stage['VOLUME']}"]
    assert "data" in compose["volumes"]


def test_the_workers_find_coordinator_and_handlers(compose):
    """Workers wait for the coordinator, are told where it is, and run an example that is in the tree."""
    worker = compose["services"]["worker"]
    address = worker["environment"]["EVENTJOBS_URL"]
    module, _, name = worker["command"][1].partition(":")
    mounted = dict(each.split(":")[1::-1] for each in worker["volumes"])
    source = ROOT / mounted[worker["working_dir"]] / f"{module}.py"
    assert address == f"http://coordinator:{PORT}"
    assert worker["depends_on"] == {"coordinator": {"condition": "service_healthy"}}
    assert worker["image"] == compose["services"]["coordinator"]["image"]
    assert re.search(rf"^{name} = Worker\(", source.read_text(), re.MULTILINE)
