"""Speed on this machine: a real coordinator process, and load over loopback from this one."""
