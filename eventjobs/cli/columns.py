"""Rows in columns, of which nothing is ever cut: where they are wider than the terminal, they are folded.

The last column is free text. On a terminal, columns that do not fit beside those before them begin a line below,
indented, the same ones in every row; free text goes on in further lines. Elsewhere a row is one line, however long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from eventjobs.cli import output

Row = Sequence[str | Text]

GAP = 2
"""Spaces between columns."""
INDENT = 4
"""Spaces before columns that were folded."""
TEXT_WIDTH_MIN = 60
"""Free text begins a line below rather than being squeezed into less than this."""


def print_columns(headings: Sequence[str], rows: Iterable[Row]) -> None:
    """Print the rows to standard output. Columns whose headings begin with # hold numbers; no headings, no line."""
    console = output.console()
    for line in folded(headings, rows, console.width if sys.stdout.isatty() else None):
        console.print(line, soft_wrap=True)


def folded(headings: Sequence[str], rows: Iterable[Row], width: int | None) -> Iterator[Text]:
    """The lines of the headings and the rows for so many cells of width; None for a line a row."""
    table = [[Text(heading.lstrip("#"), "bold") for heading in headings]]
    table += [[cell.copy() if isinstance(cell, Text) else output.text(cell) for cell in row] for row in rows]
    sizes = [max(cell.cell_len for cell in column) for column in zip(*table, strict=True)]
    groups = _groups(sizes, width)
    for row in table:
        for cell, size, heading in zip(row, sizes, headings, strict=True):
            if heading.startswith("#"):
                cell.pad_left(size - cell.cell_len)
        for group in groups:
            indent = 0 if group.start == 0 else INDENT
            for line in _lines(row[group.start : group.stop], sizes[group.start : group.stop], indent, width):
                line.rstrip()
                if line:
                    yield line


def _groups(sizes: Sequence[int], width: int | None) -> list[range]:
    """The columns that share a line."""
    starts, used = [0], 0
    for column, size in enumerate(sizes):
        needed = min(size, TEXT_WIDTH_MIN) if column == len(sizes) - 1 else size
        if width is not None and column > starts[-1] and used + needed > width:
            starts.append(column)
            used = INDENT
        used += size + GAP
    return [range(*ends) for ends in zip(starts, [*starts[1:], len(sizes)], strict=True)]


def _lines(cells: Sequence[Text], sizes: Sequence[int], indent: int, width: int | None) -> Iterator[Text]:
    """The cells beside each other; the last one goes on below itself."""
    line = Text(" " * indent)
    for cell, size in zip(cells[:-1], sizes, strict=False):
        line.append_text(cell)
        line.append(" " * (size + GAP - cell.cell_len))
    before = line.cell_len
    for piece in _pieces(cells[-1], None if width is None else width - before):
        yield line.append_text(piece)
        line = Text(" " * before)


def _pieces(text: Text, width: int | None) -> Iterable[Text]:
    """The text in pieces of so many cells; a word is never broken, so that it can be copied."""
    breaks, used = [], 0
    for word in re.finditer(r"\s*\S+\s*", text.plain):
        if width is not None and used and used + cell_len(word[0].rstrip()) > width:
            breaks.append(word.start())
            used = 0
        used += cell_len(word[0])
    return text.divide(breaks)
