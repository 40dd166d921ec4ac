"""README.md and docs/ are true: their commands are run as they are printed, and say what it says there that they say.

Every `console` block is typed in, in order, into one shell after another in one folder; `python` blocks that begin
with the name of a file are saved under it. What differs from run to run (ids, times, durations, digests, the port) is
matched by its form, an id by the one that was seen in its place before.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from attrs import define, frozen

from eventjobs.cli import exits
from eventjobs.cli.main import cli

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
CONFIGURATION, HTTP = DOCS / "configuration.md", DOCS / "http.md"
PAGES = ("archive", "audit", "backup", "commands", "export", "history", "retention")
STEPS_AT_LEAST = {README: 4, HTTP: 6, DOCS / "programs.md": 9, DOCS / "scale.md": 3} | {
    DOCS / f"{page}.md": 10 for page in PAGES
}
"""How many commands a document has at least: none of them is passed over."""
ON_A_DATABASE = ROOT / "docs" / "transactional-enqueue.md"
PORT = "8484"
ANSWER_SECONDS = 30
PAUSE_SECONDS = 0.05

# A command that only looks may be asked again until it shows what it should: jobs are run meanwhile.
LOOKS = re.compile(r"eventjobs (?:show|jobs|dead|stats|intake|verify$)\b|curl -s http")

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
VARYING = {
    "id": UUID,
    "time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    "duration": r"\d+(?:\.\d+)? (?:ms|s)\b",
    "number": r"(?<=[_\"]seconds\":)\d+(?:\.\d+)?(?:e-?\d+)?",
    "request": r"(?<=request_id=)\S+",
    "port": r"(?<=127\.0\.0\.1:)\d+",
    "directory": r"(?<=data in )\S+",
    "database": r"(?<=data in database )\S+ at \S+",
    "root": r"[A-Za-z0-9+/]{43}=",
    "digest": r"[0-9a-f]{64}",
    "size": r"\d+(?:,\d{3})+ bytes(?=, )",
    "key": r"(?<=\+)[0-9a-f]{8}\+[A-Za-z0-9+/]{44}",
    "signature": r"(?<=— example\.com/jobs )[A-Za-z0-9+/]{91}=",
}
ANY = re.compile("|".join(f"(?P<{name}>{form})" for name, form in VARYING.items()))


@frozen
class Step:
    """A command of the document, where it stands, and what it says there."""

    line: int
    command: str
    says: str


@frozen
class Block:
    """A fenced block: its language, the number of its first line, and its text."""

    language: str
    line: int
    text: str


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a document."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    return [Block(each[1], markdown.count("\n", 0, each.start()) + 2, each[2]) for each in found]


def steps(block: Block) -> list[Step]:
    """The commands of a console block; a line that ends in a backslash goes on."""
    parts = re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    return [Step(block.line + block.text.count("\n", 0, each.start()), each[1], each[2]) for each in parts]


@define
class Shell:
    """A folder to work in, the environment, what runs in the background, and the ids seen so far."""

    folder: Path
    environment: dict[str, str]
    ids: dict[str, str]
    background: list[subprocess.Popen]

    def run(self, step: Step) -> None:
        """Carry the step out, and check what it says."""
        if step.command.endswith("&"):
            self._start(step)
            return
        deadline = time.monotonic() + (ANSWER_SECONDS if LOOKS.match(step.command) else 0)
        while True:
            done = self._finish(step.command)
            if done.returncode == 0 and not self._differs(step, done.stdout):
                return
            if time.monotonic() >= deadline:
                raise AssertionError(
                    f"line {step.line}: {step.command}\nshows\n{step.says}\nbut ends with {done.returncode} "
                    f"and says\n{done.stdout}"
                )
            time.sleep(PAUSE_SECONDS)

    def _finish(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self._here(command)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWER_SECONDS,
        )

    def _start(self, step: Step) -> None:
        """Start a command in the background and wait until it said what it should."""
        said = self.folder / f"said-{len(self.background)}"
        with said.open("wb") as file:
            command = ["bash", "-c", "exec " + self._here(step.command.rstrip("& "))]
            self.background.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=file, stderr=file)
            )
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._differs(step, said.read_text(), more=True):
            assert time.monotonic() < deadline, f"line {step.line}: {said.read_text()}"
            assert self.background[-1].poll() is None, f"line {step.line} ended: {said.read_text()}"
            time.sleep(PAUSE_SECONDS)
        self._learn_port()

    def _learn_port(self) -> None:
        path = Path(self.environment["EVENTJOBS_PORT_FILE"])
        deadline = time.monotonic() + ANSWER_SECONDS
        while not path.exists():
            assert time.monotonic() < deadline, "the coordinator never wrote its port"
            time.sleep(PAUSE_SECONDS)
        self.environment["EVENTJOBS_URL"] = f"http://127.0.0.1:{path.read_text().strip()}"

    def _here(self, text: str) -> str:
        """The text with the ids and the port of this run in place of the document's."""
        address = self.environment.get("EVENTJOBS_URL", PORT)
        text = text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{address.rpartition(':')[2]}")
        return re.sub(UUID, lambda found: self.ids.get(found[0], found[0]), text)

    def save(self, block: Block) -> None:
        """Save a block that names its file."""
        (self.folder / block.text.splitlines()[0].removeprefix("# ")).write_text(self._here(block.text))

    def _differs(self, step: Step, said: str, *, more: bool = False) -> bool:
        """Whether what was said is not what the document shows. Notes the ids that are new.

        Lines are joined first, for a table breaks them where its columns end. `more` lets more follow.
        """
        shown = squeezed(step.says)
        form, end = "", 0
        for found in ANY.finditer(shown):
            form += re.escape(shown[end : found.start()]) + f"({VARYING[found.lastgroup]})"
            end = found.end()
        match = re.fullmatch(form + re.escape(shown[end:]) + (".*" if more else ""), squeezed(said), re.DOTALL)
        if match is None:
            return True
        pairs = zip((found[0] for found in ANY.finditer(shown)), match.groups(), strict=True)
        seen = [(expected, actual) for expected, actual in pairs if re.fullmatch(UUID, expected)]
        known = dict(seen) | self.ids
        if any(known[expected] != actual for expected, actual in seen):
            return True
        self.ids |= known
        return False


def squeezed(text: str) -> str:
    """The text with each run of spaces and line ends as one space: columns are as wide as their contents."""
    return " ".join(text.split())


@pytest.fixture
def shell(tmp_path):
    """A shell in an empty folder, with the installed command on its path and a coordinator on a free port."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("EVENTJOBS_")}
    settings = {
        "PATH": os.pathsep.join(paths),
        "TZ": "UTC",
        "CURL_HOME": str(tmp_path),
        "EVENTJOBS_PORT": "0",
        "EVENTJOBS_PORT_FILE": str(tmp_path / "port"),
    }
    (tmp_path / "folder").mkdir()
    (tmp_path / ".curlrc").write_text("silent\nshow-error\n")  # as on a terminal: no progress among the output
    made = Shell(tmp_path / "folder", clean | settings, {}, [])
    yield made
    for process in reversed(made.background):
        process.send_signal(signal.SIGTERM)
    for process in made.background:
        process.wait(ANSWER_SECONDS)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the document's HTTP examples are typed with curl")
@pytest.mark.parametrize("document", STEPS_AT_LEAST, ids=lambda path: path.name)
def test_the_readme_is_true(shell, document):
    """Every command of a document does and says what is printed there, with the files that are printed there."""
    assert followed(shell, document) >= STEPS_AT_LEAST[document]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the document's HTTP examples are typed with curl")
def test_the_page_about_transactions_is_true(shell, postgres_url):
    """The same on a database, whose address is in a variable."""
    shell.environment["DATABASE"] = postgres_url
    assert followed(shell, ON_A_DATABASE) >= 10


def followed(shell, document) -> int:
    """How many commands of the document were carried out."""
    done = 0
    for block in blocks(document.read_text(encoding="utf-8")):
        if block.language == "python" and block.text.startswith("# "):
            shell.save(block)
        elif block.language == "console":
            for step in steps(block):
                shell.run(step)
                done += 1
    return done


def test_the_wire_contracts_example_is_printed():
    """The one-line enqueue that clients are promised stands in docs/http.md, to the letter."""
    text = HTTP.read_text(encoding="utf-8")
    assert (
        f"curl -X POST http://127.0.0.1:{PORT}/jobs -H 'Content-Type: application/json' "
        """-d '{"job_type":"email","payload":"hi","max_attempts":5,"retry_policy":"""
        """{"type":"Exponential","base":8,"max_delay":10}}'"""
    ) in text


def test_every_page_that_starts_a_coordinator_says_where_to_follow_it():
    """Who types the commands of one page after those of another would meet the other's coordinator and data."""
    silent = [
        page.name
        for page in DOCS.glob("*.md")
        if "\n$ eventjobs serve" in (text := page.read_text(encoding="utf-8"))
        and "To follow it, stop what runs of other pages, and begin in a fresh directory." not in " ".join(text.split())
    ]
    assert silent == []


def test_every_make_target_that_is_named_exists():
    """What README.md and CONTRIBUTING.md tell to make can be made."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"):
        named = set(re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8")))
        assert named <= targets, name


@pytest.mark.parametrize(
    ("store", "command"),
    [
        ([], ".venv/bin/eventjobs demo"),
        (["STORE=postgresql://h/d"], ".venv/bin/eventjobs demo --store 'postgresql://h/d'"),
        (
            ["STORE=postgres"],
            ".venv/bin/python -m eventjobs.testing.with_postgres .venv/bin/eventjobs demo --store '{}'",
        ),
    ],
)
def test_make_shows_the_demo_as_one_command(store, command):
    """What make prints can be typed again."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", *store], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == command, done.stderr


def test_every_word_of_the_audit_is_explained():
    """The tables that verify names are in the glossary."""
    readme = README.read_text(encoding="utf-8")
    audit = re.search(r"^\$ eventjobs verify\n(.*?)^sound:", readme, re.MULTILINE | re.DOTALL)
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    tables = [line.split()[0] for line in audit[1].splitlines() if line.split()[-1] in ("row", "rows")]
    assert len(tables) > 5 and [table for table in tables if f"`{table}`" not in glossary] == []


def test_every_variable_that_is_named_exists():
    """The settings that docs/configuration.md lists are those that commands share or that keep running, each with its
    option."""
    commands = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))}
    options = [(name, option) for name, command in commands.items() for option in command.params if option.envvar]
    known = {option.envvar: option for name, option in options if f"_{name.upper()}_" not in option.envvar}
    rows = re.findall(r"^\| (`EVENTJOBS_.*?) \| (.*?) \|", CONFIGURATION.read_text(encoding="utf-8"), re.MULTILINE)
    named = [pair for row in rows for pair in zip(*(re.findall(r"`([^`]+)`", cell) for cell in row), strict=True)]
    assert {variable for variable, _ in named} == known.keys()
    assert [pair for pair in named if pair[1].split()[-1] not in known[pair[0]].opts] == []


def test_the_exit_codes_are_the_commands():
    """docs/configuration.md lists the exit codes that the command line has, with the same words."""
    rows = re.findall(r"^\| (\d+) \| (.*?) \|$", CONFIGURATION.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == exits.MEANINGS


def test_every_link_leads_somewhere():
    """Links between the documents of the project lead to files that exist."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("specs/**/*.md"), ROOT / "tests" / "README.md"]
    for document in documents:
        links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
        lost = [link for link in links if "://" not in link and not (document.parent / link).exists()]
        assert lost == [], document.name


ID, OTHER = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"


@pytest.mark.parametrize(
    ("says", "said", "true"),
    [
        ("a  b\n0.5 s", "a b 12 ms", True),
        ("a b", "a c", False),
        ("a\nb", "a", False),
        ("a", "a\nb", False),
        ("at 2026-01-01 00:00:00.000", "at 2027-02-03 04:05:06.789", True),
        ("at 2026-01-01 00:00:00.000", "at noon", False),
        (f"{ID} x", f"{OTHER} x", True),
        (f"{ID} x", f"{OTHER} y", False),
        (f"{ID} {ID}", f"{OTHER} {OTHER}", True),
        (f"{ID} {ID}", f"{OTHER} {ID}", False),
    ],
)
def test_the_comparison_tells_right_from_wrong(tmp_path, says, said, true):
    """Only what varies may differ, and an id stays the same id."""
    step = Step(1, "", says)
    assert Shell(tmp_path, {}, {}, [])._differs(step, said) is not true
    assert Shell(tmp_path, {}, {ID: "another"}, [])._differs(step, said) is (not true or ID in says)


def test_what_goes_on_speaking_may_say_more(tmp_path):
    """Of a command in the background only the beginning is compared."""
    step = Step(1, "", "serving on http://127.0.0.1:8484")
    shell = Shell(tmp_path, {}, {}, [])
    assert not shell._differs(step, "serving on http://127.0.0.1:41234\nand more\n", more=True)
    assert shell._differs(step, "serving on http://127.0.0.1:41234\nand more\n")
    assert shell._differs(step, "not serving on http://127.0.0.1:41234\n", more=True)


def test_a_command_may_go_on_in_the_next_line():
    """A backslash at the end of a line joins it to the next; what follows is what the command says."""
    text = "$ a \\\n  b\nsays\nthis\n$ c\n"
    assert steps(Block("console", 7, text)) == [Step(7, "a \\\n  b", "says\nthis\n"), Step(11, "c", "")]
