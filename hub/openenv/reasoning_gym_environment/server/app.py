"""The server: `uvicorn server.app:app --port 8000` in the folder above."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app

from reasoning_env import ReasoningEnvError, ScoringError, WorkerError

try:
    from ..models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
    from .environment import ReasoningGymEnvironment, bridge, close_bridge
except ImportError:  # the folder itself is on the path
    from models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
    from server.environment import ReasoningGymEnvironment, bridge, close_bridge

SESSIONS = 256
"""Sessions at a time. A session is a thread that waits, and a problem."""

app = create_app(
    ReasoningGymEnvironment,
    ReasoningGymAction,
    ReasoningGymObservation,
    env_name="reasoning_gym_environment",
    max_concurrent_envs=SESSIONS,
    state_cls=ReasoningGymState,
)
# Before the first request, so that wrong settings end the start, and /health means that problems can be served.
app.router.on_startup.append(bridge)
app.router.on_shutdown.append(close_bridge)


@app.exception_handler(ReasoningEnvError)
async def explain(_: Request, error: ReasoningEnvError) -> JSONResponse:
    """Tell over HTTP what a WebSocket session tells as the message of an error."""
    is_ours = isinstance(error, ScoringError | WorkerError)
    return JSONResponse({"detail": str(error)}, status_code=503 if is_ours else 422)
