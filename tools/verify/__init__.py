"""Verifying a store: everything it says, held against what it says elsewhere. Reads only."""
