"""Offline programs over a store, and the bench."""
