"""eventjobs: a background-job coordinator that can prove what happened."""

__version__ = "0.1.0"
