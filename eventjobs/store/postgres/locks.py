"""The advisory locks of a store in a database, all taken for one transaction, so that they pass a pooler."""

from __future__ import annotations

LOCK_SPACE = 0x45564A42
"""First number of the advisory locks; the second says which."""
APPEND_LOCK, SCHEMA_LOCK, KEEPER_LOCK, INTAKE_LOCK = 1, 2, 3, 4
