"""Sizes on the command line."""

from __future__ import annotations

import click
import pytest

from eventjobs.cli.sizes import SIZE


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512M", 512 << 20),
        ("64G", 64 << 30),
        ("1TiB", 1 << 40),
        ("8 kb", 8 << 10),
        ("7B", 7),
    ],
)
def test_a_size_is_bytes_with_or_without_a_power(text: str, size: int) -> None:
    """Suffixes are powers of 1024, in either case."""
    assert SIZE.convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "M", "1.5G", "-1", "1X", "1 G G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Anything else is wrong usage that shows how a size looks."""
    with pytest.raises(click.BadParameter, match="such as"):
        SIZE.convert(text, None, None)
