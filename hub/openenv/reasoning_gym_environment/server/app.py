"""The server. Start it in the parent folder: `uvicorn server.app:app --port 8000`."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app

from reasoning_env import ReasoningEnvError, ScoringError, WorkerError

try:
    from ..models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
    from .environment import ReasoningGymEnvironment, bridge, close_bridge
except ImportError:  # uvicorn runs in the parent folder, so the modules are imported without their package
    from models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
    from server.environment import ReasoningGymEnvironment, bridge, close_bridge

SESSIONS = 256
"""Maximum number of sessions at a time. A session needs little: a problem, and a thread that mostly waits."""

app = create_app(
    ReasoningGymEnvironment,
    ReasoningGymAction,
    ReasoningGymObservation,
    env_name="reasoning_gym_environment",
    max_concurrent_envs=SESSIONS,
    state_cls=ReasoningGymState,
)
# Create the bridge before the first request. So wrong settings end the start, and a reply of /health means that the
# server can serve problems.
app.router.on_startup.append(bridge)
app.router.on_shutdown.append(close_bridge)


@app.exception_handler(ReasoningEnvError)
async def explain(_: Request, error: ReasoningEnvError) -> JSONResponse:
    """Reply with the message of an error, which WebSocket sessions already send: status 503 if a retry may help."""
    is_ours = isinstance(error, ScoringError | WorkerError)
    return JSONResponse({"detail": str(error)}, status_code=503 if is_ours else 422)
