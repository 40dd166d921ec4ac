"""The way out and the way in: a log as lines of JSON, which any engine takes with the same positions and hashes."""
