"""The imperative shell: one road from a command to the log, and the timers that use it as clients."""
