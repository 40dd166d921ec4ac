"""Replay: the state of jobs at any point of a log, made anew from the log alone."""
