"""The group: every command is there under its words, and help costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from eventjobs.cli import exits
from eventjobs.cli.main import COMMANDS, cli, main


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    """The short help in the table is the command's own, and the command has a long one."""
    command = cli.get_command(click.Context(cli), name)
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name][1]
    assert command.help


def test_help_loads_no_server_no_store_and_no_client() -> None:
    """`eventjobs --help` imports nothing that is slow."""
    program = (
        "import sys\n"
        "from eventjobs.cli.main import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        "    loaded = {'aiohttp', 'lmdb', 'structlog', 'rich', 'msgspec', 'asyncio'} & set(sys.modules)\n"
        "    assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, (_, words) in COMMANDS.items():
        assert f"{name} " in done.stdout and words in done.stdout


def test_help_lists_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Each exit code stands in the help with its meaning."""
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == exits.DONE
    shown = " ".join(capsys.readouterr().out.split())
    for code, meaning in exits.MEANINGS.items():
        assert f"{code} {meaning}" in shown


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["jobs", "--state", "odd"], ["enqueue"], ["serve", "--port", "-1"]]
)
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage ends with USAGE and says what is wrong, on standard error."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == exits.USAGE
    shown = capsys.readouterr()
    assert "Error: " in shown.err and not shown.out


def test_an_expected_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no coordinator listens, a command says so in one line and ends with UNREACHABLE."""
    with pytest.raises(SystemExit) as exit_:
        main(["stats", "--url", "http://127.0.0.1:1"])
    assert exit_.value.code == exits.UNREACHABLE
    shown = capsys.readouterr()
    assert shown.err.startswith("eventjobs: ") and shown.err.count("\n") == 1 and "http://127.0.0.1:1" in shown.err


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """EVENTJOBS_URL sets --url for every command; a flag goes before it."""
    monkeypatch.setenv("EVENTJOBS_URL", "http://127.0.0.1:2")
    for arguments, address in ((["jobs"], "127.0.0.1:2"), (["jobs", "--url", "http://127.0.0.1:3"], "127.0.0.1:3")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert address in capsys.readouterr().err
