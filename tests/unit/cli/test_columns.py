"""Columns: nothing is cut, whatever the width."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from eventjobs.cli.columns import TEXT_WIDTH_MIN, folded

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
HEADINGS = ("id", "kind", "#attempts", "state", "why")
ROWS = (
    (ID, "thumbnail/render-large:v2", "3/5", Text("dead", "red"), "the image server did not answer " * 3),
    (ID, "greet", "10/1000", Text("queued", "cyan"), ""),
)


def shown(width: int | None, headings: tuple[str, ...] = HEADINGS, rows: tuple = ROWS) -> list[str]:
    """The lines as they are read."""
    return [line.plain for line in folded(headings, rows, width)]


def test_a_row_is_a_line_where_no_width_is_given() -> None:
    """One line a row, however long; columns are aligned, numbers on the right; no spaces at the end."""
    assert shown(None) == [
        "id                                    kind                       attempts  state   why",
        f"{ID}  thumbnail/render-large:v2       3/5  dead    {'the image server did not answer ' * 3}".rstrip(),
        f"{ID}  greet                       10/1000  queued",
    ]


def test_rows_that_fit_are_not_folded() -> None:
    """At the width of the longest line they are as without a width; one cell less, and they are not."""
    longest = max(map(len, shown(None)))
    assert shown(longest) == shown(None)
    assert shown(longest - 1) != shown(None)


def test_rows_are_folded_where_the_width_ends() -> None:
    """Columns go to lines below in every row alike, free text below itself; a blank line is left out."""
    assert shown(81) == [
        "id                                    kind                       attempts  state",
        "    why",
        f"{ID}  thumbnail/render-large:v2       3/5  dead",
        "    the image server did not answer the image server did not answer the image",
        "    server did not answer",
        f"{ID}  greet                       10/1000  queued",
    ]
    assert shown(80)[:2] == [
        "id                                    kind                       attempts",
        "    state   why",
    ]
    assert shown(60)[:2] == ["id", "    kind                       attempts  state"]


def test_free_text_stays_beside_where_there_is_room_for_it() -> None:
    """With room for a good part of it, it goes on below itself."""
    before = len(shown(None)[0]) - len("why")
    assert shown(before + TEXT_WIDTH_MIN)[2].startswith(" " * before + "answer the")
    assert shown(before + TEXT_WIDTH_MIN - 1)[2].startswith(ID)


@pytest.mark.parametrize("width", [1, 10, 36, 37, 60, 79, 80, 100, 105, 150, 200])
def test_nothing_is_lost_at_any_width(width: int) -> None:
    """The words are the same in the same order, each in one piece, and no line is wider than it must be."""
    lines = shown(width)
    assert " ".join(lines).split() == " ".join(shown(None)).split()
    assert [line for line in lines if len(line) > width and len(line.split()) > 1 and width >= 60] == []


def test_wide_letters_count_as_two() -> None:
    """Columns are aligned by what letters take on the screen."""
    lines = shown(None, ("name", "why"), (("工人", "x"), ("w-1", "y")))
    assert [cell_len(line[: line.index(end)]) for line, end in zip(lines[1:], "xy", strict=True)] == [6, 6]


def test_what_a_job_brings_along_is_shown_as_it_is() -> None:
    """Control characters do not reach the terminal and do not break a line; nothing is taken for markup."""
    (line,) = shown(None, ("", ""), (("[red]a[/]\\", "\x1b[2J\nb\x9bc\u00e9\u202ed\u2028"),))
    assert line == "[red]a[/]\\  \\x1b[2J\\x0ab\\x9bc\u00e9\\u202ed\\u2028"


def test_rows_are_not_changed() -> None:
    """The same cells can be printed again."""
    cell = Text("7")
    for _ in range(2):
        assert shown(None, ("#number", ""), ((cell, "x"),))[1] == "     7  x"
