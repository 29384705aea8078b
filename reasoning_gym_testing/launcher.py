"""Start processes, and end each process and its children when its starter stops the process or ends itself.

Usage: `python launcher.py [MODULE ...]`, with a socket as standard input. The launcher imports the modules. For each
byte that it reads from the socket, it forks a supervisor. With the byte, the starter sends one end of a socket pair.
Over this pair, starter and supervisor exchange lines of JSON: the starter sends a request (see `supervise`), and the
supervisor replies with `{"pid": N}` and, when the process ends, `{"exit_status": N}` (128 + N after signal N).

To stop the process, the starter closes its writing side of the pair. If the starter is killed, the operating system
closes it. The process group then gets SIGTERM and, after `grace_s`, SIGKILL. When the process ends by itself, the
supervisor kills the remaining processes of its group.

This file imports only the standard library, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from typing import Any


def main(modules: list[str]) -> list[str] | None:
    """Serve a starter until it ends. In a fork that must run Python code, return the arguments for `run_python`."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for module in modules:
        importlib.import_module(module)
    del sys.path[0]
    gc.freeze()  # a garbage collection would copy the memory pages that forks share
    control = socket.socket(fileno=os.dup(0))
    while True:
        byte, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not byte:
            control.close()
            return None
        with contextlib.suppress(ChildProcessError):  # no child processes
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            control.close()
            return supervise(socket.socket(fileno=handles[0]))
        os.close(handles[0])


def supervise(starter: socket.socket) -> list[str] | None:
    """Read a request, run its command, and report the exit status. Returns the same as `main`.

    The request has `command`, `folder` (for the output files), `cwd`, `variables`, `grace_s` and `fork`. With `fork`,
    `command` has the arguments of Python, and runs in a fork of this process.
    """
    os.setsid()
    request = json.loads(starter.makefile().readline())
    _set_up_process(request)
    if not request["fork"]:
        # Keep a reference, because the finalizer of a Popen may wait for the process and take its exit status.
        process = subprocess.Popen(request["command"], process_group=0)
        pid = process.pid
    elif (pid := os.fork()) == 0:
        starter.close()
        os.setpgid(0, 0)
        return list(request["command"])
    else:
        os.setpgid(pid, pid)  # parent and child both call setpgid, because either may run first
    _send_status(starter, pid=pid)
    threading.Thread(target=_end_with_starter, args=(starter, pid, request["grace_s"]), daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _signal_group(pid, signal.SIGKILL)
    _send_status(starter, exit_status=status if status >= 0 else 128 - status)
    os._exit(0)


def _set_up_process(request: dict[str, Any]) -> None:
    """Apply the request to this process: redirect standard streams, and set working directory and environment."""
    out, err = (os.path.join(request["folder"], name) for name in ("stdout.log", "stderr.log"))
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        handle = os.open(path, flags | os.O_CREAT, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["variables"])
    if "tempfile" in sys.modules:  # a preloaded module may have cached the folder for temporary files
        import tempfile

        tempfile.tempdir = None


def _end_with_starter(starter: socket.socket, group: int, grace_s: float) -> None:
    """Wait until the starter closes its side, then end the process group. Runs on a daemon thread."""
    while starter.recv(1):
        pass
    _signal_group(group, signal.SIGTERM)
    _signal_group(group, signal.SIGCONT)  # a stopped process cannot handle SIGTERM
    threading.Event().wait(grace_s)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    """Send a signal to a process group. Ignores the errors for a group that has ended (on macOS, PermissionError)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _send_status(starter: socket.socket, **line: int) -> None:
    with contextlib.suppress(OSError):  # the starter has ended
        starter.sendall(json.dumps(line).encode() + b"\n")


def run_python(arguments: list[str]) -> None:
    """Run a script, or a module after `-m`, with the remaining arguments, as `python` does."""
    if arguments[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(arguments[0]))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    forked = main(sys.argv[1:])
    if forked:
        run_python(forked)
