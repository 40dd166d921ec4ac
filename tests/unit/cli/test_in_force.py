"""What a coordinator says of its settings: rules, archive, heads; and what is too hasty among them."""

from __future__ import annotations

import pytest

from eventjobs.cli.in_force import settings_lines
from eventjobs.domain.durations import age_of, age_text
from eventjobs.domain.retention import NO_RULES, parse_rules
from eventjobs.store.checkpoint import Checkpoints

NOTES = Checkpoints.of("example.com/jobs", None)


def test_without_settings_it_says_what_holds_and_where_to_change_it() -> None:
    """For ever, never and unsigned are said, with the options that say otherwise."""
    (line,) = settings_lines(NO_RULES, None, NOTES)
    assert line == (
        "keeps finished jobs for ever (no --retain); no records go to the archive (no --archive-after); "
        "heads of example.com/jobs, unsigned"
    )


def test_rules_and_ages_are_said_as_they_were_given() -> None:
    """The text of each rule, and the age in the unit that it has."""
    (line,) = settings_lines(parse_rules("succeeded  queue=mail 3d, payloads 0s"), age_of("36h"), NOTES)
    assert (
        "by --retain: succeeded queue=mail 3d, payloads 0s; " in line
        and "; records go to the archive at the age of 36h; " in line
    )


@pytest.mark.parametrize(("rules", "warns"), [("succeeded 0s", True), ("dead 59s", True), ("canceled 60s", False)])
def test_a_job_that_is_gone_before_its_outcome_can_be_repeated_is_warned_of(rules: str, warns: bool) -> None:
    """An outcome whose answer was lost is repeated for some time after the job's end."""
    lines = list(settings_lines(parse_rules(rules), None, NOTES))
    assert [line.startswith(f"warning: --retain {rules}: ") for line in lines[1:]] == [True] * warns


@pytest.mark.parametrize("text", ["1s", "90s", "36h", "30d", "4w", "1.5s", "0s"])
def test_an_age_is_written_as_it_is_read(text: str) -> None:
    """In the largest unit of which it is a whole number."""
    assert age_text(age_of(text)) == text
