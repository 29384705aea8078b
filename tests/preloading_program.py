"""Imports the library once, and forks fork servers on request: `python preloading_program.py LISTENER LISTENER`.

The arguments are two descriptors. Forks for the first listener have imported `child.py` alone; they serve other
libraries and score functions. Forks for the second one have imported the installed library too. The program ends at the
end of its standard input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent


def main(bare: socket.socket, library: socket.socket) -> None:
    gc.disable()
    sys.path.insert(0, str(ROOT))
    from reasoning_env.workers import child
    from reasoning_env.workers.library import without_plotting

    del sys.path[0]
    if os.fork() == 0:
        with without_plotting():
            importlib.import_module("reasoning_gym")
        bare = library
    gc.freeze()
    serve(bare, child.run_fork_server)


def serve(listener: socket.socket, run_fork_server: Any) -> None:
    """Fork for each connection, and report how each fork ended, until the end of standard input."""
    connections: dict[int, tuple[int, socket.socket]] = {}
    """Process ids and connections of the forks, by descriptors that become readable when a fork ends."""
    while True:
        readable, _, _ = select.select([sys.stdin, listener, *connections], [], [])
        if sys.stdin in readable:
            return
        for ended in connections.keys() & set(readable):
            pid, connection = connections.pop(ended)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(ended)
            with contextlib.suppress(OSError), connection:
                connection.sendall(b"%d\n" % status)
        if listener in readable:
            connection, _ = listener.accept()
            try:
                request, descriptors = _receive(connection)
            except EOFError:
                connection.close()
                continue
            pid = os.fork()
            if pid == 0:
                become_fork_server(request, *descriptors, run_fork_server)
            for descriptor in descriptors:
                os.close(descriptor)
            connections[os.pidfd_open(pid)] = (pid, connection)
            with contextlib.suppress(OSError):
                connection.sendall(b"%d\n" % pid)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request with its descriptors. Raises EOFError if the client has ended."""
    text, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
    while not text.endswith(b"\n"):
        more = connection.recv(1 << 20)
        if not more:  # observed: a client killed before its request kept this loop running for an hour
            for descriptor in descriptors:
                os.close(descriptor)
            raise EOFError
        text += more
    return json.loads(text), descriptors


def become_fork_server(request: dict[str, Any], orders: int, error_log: int, run_fork_server: Any) -> NoReturn:
    """Set up the process as `subprocess.Popen` would set up a new interpreter, and run the fork server to its end."""
    status = 1
    try:
        os.setsid()
        os.dup2(error_log, 2)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.closerange(3, orders)
        os.closerange(orders + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        run_fork_server(orders, request["start"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(*(socket.socket(fileno=int(word)) for word in sys.argv[1:]))
