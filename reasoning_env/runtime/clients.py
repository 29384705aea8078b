"""The client for whom a task of the event loop works, so that the jobs of one client wait behind those of another."""

from __future__ import annotations

from contextvars import ContextVar

CLIENT: ContextVar[str] = ContextVar("CLIENT", default="")
"""Name of the client of a server for whom the present task works; empty for the process's own work."""
