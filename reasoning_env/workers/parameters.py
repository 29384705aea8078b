"""Query a worker for the parameters of tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..errors import WorkerError
from ..runtime.text import error_text
from .protocol import ProtocolFault, Role
from .worker import WORKER_START_TIMEOUT_S, DeadlineExceeded, Slot, WorkerDied


async def query_parameters(
    start_worker: Callable[[Slot], Awaitable[object]],
    request: Mapping[str, object],
    reply_key: str,
    tasks: Sequence[str],
) -> Any:
    """Send a request to a fresh worker. Return the value that the reply has for the key `reply_key`.

    `start_worker` puts a worker into a slot. Raises WorkerError if no worker starts or if the worker cannot reply.
    """
    slot = Slot(Role.GENERATOR)
    limit_s = WORKER_START_TIMEOUT_S
    names = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} others" if len(tasks) > 3 else "")
    try:
        await start_worker(slot)
        slot.current.send(request)
        reply = await slot.current.receive(limit_s)
        return reply.header[reply_key]
    except DeadlineExceeded:
        raise WorkerError(f"a worker needed more than {limit_s:g} s to check the parameters of {names}") from None
    except (WorkerDied, ProtocolFault, KeyError, TypeError, ValueError, RecursionError) as error:
        raise WorkerError(f"the parameters of {names} cannot be checked ({error_text(error)})") from error
    finally:
        slot.vacate()
