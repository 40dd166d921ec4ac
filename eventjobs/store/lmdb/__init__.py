"""The embedded engine: one LMDB environment in one directory, for one coordinator."""

from eventjobs.store.lmdb.engine import DEFAULT_MAP_SIZE, LmdbEngine, open_engine

__all__ = ["DEFAULT_MAP_SIZE", "LmdbEngine", "open_engine"]
