"""The HTTP/JSON API: from bytes to commands, and from jobs and events back to bytes. It decides nothing about jobs."""
