"""Where a store is, as commands are told: a directory or a file, or the address of a database."""

from __future__ import annotations

from pathlib import Path

import click

from eventjobs.cli.options import DATABASE_SCHEMES
from eventjobs.cli.stores import Database


class Place(click.Path):
    """A path, or a Database for a URL of PostgreSQL."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: str | Path | Database, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | Database:
        if isinstance(value, Database):
            return value
        if isinstance(value, str) and value.startswith(DATABASE_SCHEMES):
            return Database(value)
        return super().convert(value, param, ctx)


class DatabaseUrl(click.ParamType):
    """A Database, by its URL."""

    name = "url"

    def convert(self, value: str | Database, param: click.Parameter | None, ctx: click.Context | None) -> Database:
        if isinstance(value, Database):
            return value
        if not value.startswith(DATABASE_SCHEMES):
            self.fail(
                "a store in a database has a URL such as postgresql://user@host/name; one on this machine is named "
                "with --data",
                param,
                ctx,
            )
        return Database(value)


PLACE = Place()
DATABASE = DatabaseUrl()
