"""Engines: where the log, the contents and the projections are kept, under one contract."""
