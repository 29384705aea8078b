"""Make fork servers by forking a program that has imported the library, instead of starting an interpreter each.

The import takes more than a second of CPU time, and the tests start hundreds of fork servers. After the import,
`child.py` runs unchanged. Tests of the start itself use the fixture `fresh_fork_servers`. If a test starts a program
in a new interpreter, the program's fork servers are new interpreters too. All pytest processes also share one program
launcher, whose imports take three seconds of CPU time.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import IO

from reasoning_env.workers import fork_server
from reasoning_gym_testing import processes

PROGRAM = Path(__file__).with_name("preloading_program.py")
FOLDER_VARIABLE = "REASONING_GYM_TESTS_PRELOADED"
"""Environment variable with the folder of the program's listeners, for processes that are forked for tests."""
FRESH_VARIABLE = "REASONING_GYM_TESTS_FRESH"
"""Set for programs whose fork server must be a new interpreter, so that `descendants` finds it as a child process."""
BARE, LIBRARY, LAUNCHER = "bare", "library", "launcher"
SHARED_VARIABLES = {
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}
"""Variables that Python and imported modules read at their start. Other values require a new interpreter."""

run_fresh_child = fork_server.run_child
start_launcher = processes._launcher


@contextlib.contextmanager
def preloading() -> Iterator[None]:
    """Run the program.

    Fork servers of this process, and of processes that are forked from it, come from the program.
    """
    folder = tempfile.mkdtemp(prefix="preloaded-")
    with contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder)
        listeners = [at_end.enter_context(_listener(Path(folder, name))) for name in (BARE, LIBRARY)]
        descriptors = [listener.fileno() for listener in listeners]
        words = [sys.executable, "-P", PROGRAM, *map(str, descriptors)]
        process = subprocess.Popen(
            words, pass_fds=descriptors, env=SHARED_VARIABLES, stdin=subprocess.PIPE, start_new_session=True
        )
        at_end.callback(process.communicate)
        requests = at_end.enter_context(_listener(Path(folder, LAUNCHER)))
        threading.Thread(target=_share_launcher, args=[requests], daemon=True).start()
        os.environ[FOLDER_VARIABLE] = folder
        use_preloaded(folder)
        share_launcher(folder)
        yield


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def _share_launcher(listener: socket.socket) -> None:
    """Start the launcher at the first connection, and send its socket to each process that connects."""
    while True:
        connection, _ = listener.accept()
        with connection:
            socket.send_fds(connection, [b"+"], [start_launcher().fileno()])


def _find_launcher(listeners: str) -> socket.socket:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(listeners, LAUNCHER))
        _, [descriptor], _, _ = socket.recv_fds(connection, 1, 1)
    launcher = socket.socket(fileno=descriptor)
    atexit.register(launcher.close)
    return launcher


def use_preloaded(listeners: str) -> None:
    """Make fork servers of this process come from the program whose listeners are in this folder."""
    fork_server.run_child = partial(run_child, listeners)  # type: ignore[assignment]


def share_launcher(listeners: str) -> None:
    """Make programs of this process come from the launcher that all pytest processes share."""
    processes._launcher = cache(partial(_find_launcher, listeners))


@contextlib.contextmanager
def fresh_children() -> Iterator[None]:
    """Make each fork server a new interpreter, as for users."""
    before = fork_server.run_child
    fork_server.run_child = run_fresh_child
    try:
        yield
    finally:
        fork_server.run_child = before


def run_child(
    listeners: str,
    orders: socket.socket,
    start: str,
    environment: Mapping[str, str],
    folder: str,
    error_log: IO[bytes],
) -> PreloadedFork | subprocess.Popen[bytes]:
    """Replace `fork_server.run_child`. Fork the program if the environment variables have the shared values."""
    if FRESH_VARIABLE in os.environ or not environment.items() >= SHARED_VARIABLES.items():
        return run_fresh_child(orders, start, environment, folder, error_log)
    arguments = json.loads(start)
    is_installed = arguments["checkout"] is None and arguments["score_function"] is None
    with socket.socket(socket.AF_UNIX) as connection:  # `PreloadedFork` keeps the connection open
        connection.connect(os.path.join(listeners, LIBRARY if is_installed else BARE))
        request = {"start": arguments, "environment": dict(environment), "folder": folder}
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [orders.fileno(), error_log.fileno()])
        return PreloadedFork(connection)


class PreloadedFork:
    """The part of the interface of `subprocess.Popen` that a fork server needs, for a process forked by the program."""

    def __init__(self, connection: socket.socket) -> None:
        self._told = connection.makefile("rb", buffering=0)
        self.returncode: int | None = None

    def __del__(self) -> None:
        """Close the connection of a fork that nobody waited for. As in `Popen`, an ended fork causes no warning."""
        self._told.close()

    @cached_property
    def pid(self) -> int:
        return int(self._told.readline())

    def poll(self) -> int | None:
        if self.returncode is None and self.pid and select.select([self._told], [], [], 0.0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            status = self._told.readline()
            self.returncode = int(status) if status else -signal.SIGKILL
            self._told.close()
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:  # otherwise another process may have this id
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
