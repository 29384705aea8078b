"""The client for whom a task of the event loop works, so that workers take turns between clients."""

from __future__ import annotations

from contextvars import ContextVar

CLIENT: ContextVar[str] = ContextVar("CLIENT", default="")
"""Name of the client of a server for whom the present task works; empty for the process's own work."""
