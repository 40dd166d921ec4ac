"""The group: every command is there under its words, and help costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from eventjobs.cli import exits, remote
from eventjobs.cli.main import COMMANDS, GROUPS, cli, main


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    """The short help in the table is the command's own, and the command has a long one."""
    command = cli.get_command(click.Context(cli), name)
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name][1]
    assert command.help


def test_what_asks_the_coordinator_can_be_told_where_it_is() -> None:
    """Every command of the group that asks the coordinator has --url."""
    for name in GROUPS["Look at what goes on, by asking the coordinator"]:
        command = cli.get_command(click.Context(cli), name)
        assert any("--url" in option.opts for option in command.params), name


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


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_variable_of_every_option(name: str) -> None:
    """Beside each option stands its variable: EVENTJOBS_<FLAG> or EVENTJOBS_<COMMAND>_<FLAG>."""
    command = cli.get_command(click.Context(cli), name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert options
    for option in options:
        flag = option.opts[0].removeprefix("--").replace("-", "_").upper()
        assert option.envvar in (f"EVENTJOBS_{flag}", f"EVENTJOBS_{name.upper()}_{flag}")
        assert f"[env var: {option.envvar}" in option.get_help_record(click.Context(command))[1]


def test_a_variable_belongs_to_one_option() -> None:
    """A variable that several commands read stands for the same option in each."""
    flags: dict[str, set[str]] = {}
    for name in COMMANDS:
        for option in cli.get_command(click.Context(cli), name).params:
            if isinstance(option, click.Option):
                flags.setdefault(option.envvar, set()).add(option.opts[0])
    assert {variable: found for variable, found in flags.items() if len(found) > 1} == {}


def test_help_lists_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Each exit code stands in the help with its meaning."""
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == exits.DONE
    shown = " ".join(capsys.readouterr().out.split())
    for code, meaning in exits.MEANINGS.items():
        assert f"{code} {meaning}" in shown


ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a coordinator that will not start."""
    monkeypatch.setattr(remote, "START_SECONDS", 0.0)


def ends(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and what came on standard error; nothing may come on standard output."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    shown = capsys.readouterr()
    assert shown.out == ""
    return exit_.value.code, shown.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["serve", "--port", "-1"],
        ["serve", "--map-size", "big"],
        ["jobs", "--state", "odd"],
        ["jobs", "--limit", "1001"],
        ["stats", "--url", "localhost:8484"],
        ["cancel", "1", "--actor", "Zoë"],
        ["enqueue"],
        ["enqueue", "email", "{"],
        ["enqueue", "email", "1,2"],
        ["enqueue", "email", "NaN"],
        ["enqueue", "email", "1", "--file", __file__],
        ["enqueue", "email", "--retry-policy", "linear"],
        ["enqueue", "email", "1", "--lines"],
        ["enqueue", "email", "--key", "k", "--lines"],
        ["enqueue", "--lines", "--queue", "q"],
        ["requeue"],
        ["requeue", ID, "--all"],
        ["requeue", ID, "--kind", "k"],
        ["cancel"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What contradicts itself or cannot be read ends with USAGE, says what is wrong, and asks nobody."""
    code, shown = ends(arguments, capsys)
    assert code == exits.USAGE
    assert "Error: " in shown and "Traceback" not in shown


@pytest.mark.parametrize(
    "arguments",
    [["jobs"], ["dead"], ["enqueue", "a"], ["show", ID], ["cancel", ID], ["requeue", "--all"], ["stats"], ["tail"]],
)
def test_no_coordinator_is_no_riddle(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Where no coordinator listens, every client command says so in one line and ends with UNREACHABLE."""
    code, shown = ends([*arguments, "--url", "http://127.0.0.1:1"], capsys)
    assert code == exits.UNREACHABLE
    assert shown == (
        "eventjobs: no coordinator answers at http://127.0.0.1:1: connection refused; is it running? "
        "start one with `eventjobs serve`, or name another with --url / EVENTJOBS_URL\n"
    )


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """EVENTJOBS_URL sets --url for every command; a flag goes before it."""
    monkeypatch.setenv("EVENTJOBS_URL", "http://127.0.0.1:2")
    for arguments, address in ((["jobs"], "127.0.0.1:2"), (["jobs", "--url", "http://127.0.0.1:3"], "127.0.0.1:3")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert address in capsys.readouterr().err


def test_every_fault_of_a_call_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """All values that cannot be taken are named at once, each with its parameter."""
    call = ["enqueue", "k", "--priority", "200", "--delay", "-1", "--max-attempts", "x"]
    code, shown = ends(call, capsys)
    assert code == exits.USAGE
    assert [flag in shown for flag in ("3 parameters", "--priority", "--delay", "--max-attempts")] == [True] * 4
    assert "--queue" not in shown


def test_a_command_that_is_nearly_right_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    """Who mistypes a command is told the one that is meant."""
    assert "Did you mean jobs?" in ends(["job"], capsys)[1]


@pytest.mark.parametrize("flag", ["data", "store"])
def test_a_store_is_named_alike_everywhere(flag: str) -> None:
    """Whatever reads or makes a store takes --data for this machine, and --store for a database if it takes both; a
    variable of these names is read by all that work on a store, and only by them."""
    takes = {name for name in COMMANDS if flag in parameters(name)}
    assert {"serve", "verify", "export", "import", "head", "prove", "history"} <= takes
    for name in takes & {"serve", "verify", "export", "import", "replay", "restore", "rebuild", "archive", "compact"}:
        assert parameters(name)[flag].envvar == f"EVENTJOBS_{flag.upper()}"
    for name in takes & {"head", "prove", "history", "backup", "demo", "bench"}:
        assert parameters(name)[flag].envvar == f"EVENTJOBS_{name.upper()}_{flag.upper()}", "it asks a coordinator"


def parameters(name: str) -> dict[str, click.Parameter]:
    """The parameters of a command by name."""
    return {param.name: param for param in cli.get_command(click.Context(cli), name).params}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_a_screen(name: str) -> None:
    """On a terminal of 120 columns, the help has 60 lines at most."""
    command = cli.get_command(click.Context(cli), name)
    text = command.get_help(click.Context(command, info_name=name, terminal_width=120, max_content_width=120))
    assert len(text.splitlines()) <= 60
