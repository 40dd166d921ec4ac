"""The event loop of the commands that keep running: uvloop where it exists (it has no Windows build)."""

try:
    from uvloop import run
except ImportError:
    from asyncio import run

__all__ = ["run"]
