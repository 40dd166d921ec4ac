"""Whether a server and a database can have a store, asked before anything is made in them."""

from __future__ import annotations

import psycopg

from eventjobs.store.contract import StoreError

OLDEST_VERSION = 140_000
OTHERS = {"CockroachDB": "CockroachDB", "-YB-": "YugabyteDB"}
"""What speaks the protocol of PostgreSQL without its advisory locks or notifications, by a mark in its version()."""
ENCODING = "UTF8"
"""The only one that has a place for every text a job may carry, and that counts it in characters."""

ABOUT = (
    "SELECT current_setting('server_version_num')::integer, current_setting('server_version'), version(), "
    "current_setting('server_encoding')"
)
OWNER = (
    "SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE'), current_user FROM pg_namespace "
    "WHERE nspname = 'eventjobs'"
)


def refuse_unfit(connection: psycopg.Connection) -> None:
    """Raises StoreError for a server or a database that cannot have a store: what was found, and what is needed."""
    number, version, banner, encoding = connection.execute(ABOUT).fetchone()
    for mark, name in OTHERS.items():
        if mark in banner:
            raise StoreError(f"this server is {name} ({banner}); a store needs PostgreSQL 14 or later")
    if number < OLDEST_VERSION:
        raise StoreError(f"this server is PostgreSQL {version}; a store needs PostgreSQL 14 or later")
    if encoding != ENCODING:
        raise StoreError(
            f"this database has the encoding {encoding}; a store needs {ENCODING}: make one by "
            "CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )


def refuse_foreign_schema(connection: psycopg.Connection) -> None:
    """Raises StoreError if the schema eventjobs is there and belongs to a role that the current one does not act for:
    whoever owns it may do with the store as he likes."""
    found = connection.execute(OWNER).fetchone()
    if found is not None and not found[1]:
        owner, _, role = found
        raise StoreError(
            f'the schema eventjobs of this database belongs to the role "{owner}", and this is "{role}": connect as '
            f'"{owner}", or let the role act for it by GRANT "{owner}" TO "{role}"'
        )
