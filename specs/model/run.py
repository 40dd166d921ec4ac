"""Check the formal model: every property of lifecycle.pml holds, and every broken twin of it is seen to fail.

    python3 specs/model/run.py

Needs spin and a C compiler (cc), and installs neither: where one is missing it says so and is content, or, with
EVENTJOBS_REQUIRE_SPIN=1, fails. EVENTJOBS_PROFILE=deep checks larger scopes too. Exits with 1 when the model breaks a
property or a twin keeps one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = Path(__file__).with_name("lifecycle.pml")
LIVENESS = {"every_job_ends"}
"""Properties that need fairness: a process that can always go on does so in the end."""
SCOPES = {"quick": [{}], "deep": [{}, {"IN_FLIGHT": 3, "LEASES": 3}, {"WORKERS": 3, "IN_FLIGHT": 1}]}
STATES_MIN = 800_000
"""A search of the whole model that sees fewer states than this has not looked at what it once did."""
DEPTH_MAX = 1_000_000
SECONDS_MAX = 600

TWINS = {  # each broken twin, and the property that it must be seen to break
    "BROKEN_NO_TOKEN_CHECK": "no_intruder",
    "BROKEN_TOKEN_RESET": "no_intruder",
    "BROKEN_TOKEN_NOT_RAISED": "tokens_only_grow",
    "BROKEN_TOKEN_RAISED_BY_RENEWAL": "tokens_only_grow",
    "BROKEN_RENEWED_TOO_LATE": "renewed_in_time",
    "BROKEN_RECORDED_AGAIN": "one_success",
    "BROKEN_ANSWER_BEFORE_COMMIT": "what_was_promised_is_kept",
    "BROKEN_CANCELED_TOO_LATE": "success_stays",
    "BROKEN_UNBOUNDED_ATTEMPTS": "attempts_are_bounded",
    "BROKEN_NO_RESCUER": "every_job_ends",
    "BROKEN_LAST_LEASE_SPARED": "every_job_ends",
    "BROKEN_EXPIRY_NOT_COUNTED": "every_job_ends",
}


class Checker:
    """One variant of the model, translated and compiled in a folder of its own."""

    def __init__(self, folder: Path, constants: dict[str, int | None]) -> None:
        self._folder = folder
        self.defines = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in constants.items()]
        run(folder, "spin", "-a", *self.defines, str(MODEL))
        run(folder, "cc", "-O1", "-w", "-DCOLLAPSE", "-DNFAIR=4", "-o", "pan", "pan.c")

    def check(self, claim: str) -> tuple[bool, int, str]:
        """Whether the property holds, how many states were seen, and what the checker said."""
        fairness = ["-f"] if claim in LIVENESS else []
        said = run(self._folder, "./pan", "-a", *fairness, "-N", claim, f"-m{DEPTH_MAX}")
        errors, states = re.search(r"errors: (\d+)", said), re.search(r"(\d+) states, stored", said)
        if errors is None or states is None or ("too small" in said and errors[1] == "0"):
            raise SystemExit(f"the checker did not finish:\n{said}")
        return errors[1] == "0", int(states[1]), said

    def trail(self) -> str:
        """The steps of the last error, in the model's words."""
        return run(self._folder, "spin", "-t", "-p", "-g", *self.defines, str(MODEL))


def run(folder: Path, *command: str) -> str:
    """What the command says. A command that fails, or takes longer than SECONDS_MAX, ends the run."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)} did not end within {SECONDS_MAX} s: this proves nothing") from None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def never_reached(said: str) -> list[str]:
    """The places of the model that no run comes to, but for the ends of processes that have none."""
    return [line.strip() for line in said.splitlines() if ", state " in line and "-end-" not in line]


def check_truth(folder: Path, constants: dict[str, int | None]) -> bool:
    """Whether every property holds of the model, all of it was reached, and enough was seen."""
    checker, sound = Checker(folder, constants), True
    scope = " ".join(checker.defines) or "the model"
    for claim in re.findall(r"^ltl (\w+)", MODEL.read_text(encoding="utf-8"), re.MULTILINE):
        began = time.monotonic()
        holds, states, said = checker.check(claim)
        say(scope, claim, "holds" if holds else "IS BROKEN", states, began)
        if not holds:
            print(checker.trail())
        elif unreached := never_reached(said):
            print("  never reached:", *unreached, sep="\n    ")
            sound = False
        elif states < STATES_MIN:
            print(f"  fewer than {STATES_MIN:,} states: this proves nothing")
            sound = False
        sound = sound and holds
    return sound


def check_twin(folder: Path, twin: str, claim: str) -> bool:
    """Whether the twin is seen to break the property."""
    began = time.monotonic()
    holds, states, _ = Checker(folder, {twin: None}).check(claim)
    say(twin, claim, "HOLDS, and must not" if holds else "is broken, as it must be", states, began)
    return not holds


def say(of: str, claim: str, verdict: str, states: int, began: float) -> None:
    """One line of the report."""
    print(f"{of:32} {claim:28} {verdict:26} {states:>10,} states {time.monotonic() - began:6.1f} s", flush=True)


def main() -> int:
    missing = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]
    if missing:
        print(f"The formal model was skipped: there is no {' and no '.join(missing)} here (Debian: spin, gcc).")
        return int(os.environ.get("EVENTJOBS_REQUIRE_SPIN") == "1")
    written = set(re.findall(r"BROKEN_\w+", MODEL.read_text(encoding="utf-8"))) - {"BROKEN_NAME"}
    if written != set(TWINS):
        print("These twins are in the model or in this script, but not in both:", *sorted(written ^ set(TWINS)))
        return 1
    scopes = SCOPES["deep" if os.environ.get("EVENTJOBS_PROFILE") == "deep" else "quick"]
    with tempfile.TemporaryDirectory() as folder:
        right = [check_truth(Path(folder), constants) for constants in scopes]
        right += [check_twin(Path(folder), *twin) for twin in TWINS.items()]
    print(f"{sum(right)} passed, {len(right) - sum(right)} failed")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
