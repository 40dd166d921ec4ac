"""The PostgreSQL engine: one log and one queue for any number of coordinators."""

from eventjobs.store.postgres.connection import database_at
from eventjobs.store.postgres.engine import PostgresEngine, open_engine

__all__ = ["PostgresEngine", "database_at", "open_engine"]
