"""Backups: whole stores as single files, verified as they are written, and data directories made of them."""
