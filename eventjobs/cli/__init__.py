"""The command `eventjobs`. Each subcommand is a module; main.py loads the one that is asked for."""
