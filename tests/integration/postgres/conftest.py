"""What the tests of the PostgreSQL engine share."""

from __future__ import annotations
