"""The PostgreSQL engine: one log and one queue for any number of coordinators."""

from eventjobs.store.postgres.connection import place_of
from eventjobs.store.postgres.engine import PostgresEngine, open_engine

__all__ = ["PostgresEngine", "open_engine", "place_of"]
