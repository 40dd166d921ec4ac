"""Many coordinators on one database: what the append lock carries, simulated, and what a turn at it costs, measured."""
