"""Starts processes, and ends each with all that it started once its starter lets go of it or is gone.

Usage: `python launcher.py [MODULE ...]`, with a socket as standard input. It imports the modules, and then forks a
supervisor for each byte that it reads, until the end. With the byte comes one end of a socket pair, over which the
starter and the supervisor exchange lines of JSON: a request (see `supervise`), then `{"pid": N}`, and at last
`{"exit_status": N}`, 128 + N if signal N ended the process. The starter ends its writing to stop the process; if it is
killed, the operating system does that. Then the process group gets SIGTERM and, after a while, SIGKILL. What the
process leaves in its group is killed when it ends.

Stands alone, standard library only, so that it starts in a few milliseconds where there is nothing to import.
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
    """Serve a starter to its end; in a process that is to become Python, return the arguments for that."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for module in modules:
        importlib.import_module(module)
    del sys.path[0]
    gc.freeze()  # so that no collection copies the pages that forks share
    control = socket.socket(fileno=os.dup(0))
    while True:
        byte, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not byte:
            return None
        with contextlib.suppress(ChildProcessError):  # there are none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            control.close()
            return supervise(socket.socket(fileno=handles[0]))
        os.close(handles[0])


def supervise(starter: socket.socket) -> list[str] | None:
    """Run what the request asks for to its end; return as `main` does.

    The request names `command`, `folder` (for its output), `cwd`, `variables` and `grace_s`. With `fork`, the command
    holds Python's arguments, and runs in a fork of this process.
    """
    os.setsid()
    request = json.loads(starter.makefile().readline())
    _take_place(request)
    if not request["fork"]:
        process = subprocess.Popen(request["command"], process_group=0)  # a Popen without a name would take its status
        pid = process.pid
    elif (pid := os.fork()) == 0:
        starter.close()
        os.setpgid(0, 0)
        return list(request["command"])
    else:
        os.setpgid(pid, pid)  # whichever of the two comes first
    _tell(starter, pid=pid)
    threading.Thread(target=_end_with_starter, args=(starter, pid, request["grace_s"]), daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _signal_group(pid, signal.SIGKILL)
    _tell(starter, exit_status=status if status >= 0 else 128 - status)
    os._exit(0)


def _take_place(request: dict[str, Any]) -> None:
    """Let standard streams, directory and environment be those of the request."""
    out, err = (os.path.join(request["folder"], name) for name in ("stdout.log", "stderr.log"))
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        handle = os.open(path, flags | os.O_CREAT, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["variables"])
    if "tempfile" in sys.modules:  # a module that was imported before may have asked where temporary files go
        import tempfile

        tempfile.tempdir = None


def _end_with_starter(starter: socket.socket, group: int, grace_s: float) -> None:
    """Wait for the end of what the starter writes, then end the group; the main thread's end ends this."""
    while starter.recv(1):
        pass
    _signal_group(group, signal.SIGTERM)
    _signal_group(group, signal.SIGCONT)  # one that is stopped could not end
    threading.Event().wait(grace_s)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, which may be gone (macOS then says that it is not permitted)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _tell(starter: socket.socket, **line: int) -> None:
    with contextlib.suppress(OSError):  # it is gone
        starter.sendall(json.dumps(line).encode() + b"\n")


def run_python(arguments: list[str]) -> None:
    """Do what Python does with a script or `-m MODULE`, and the arguments after that."""
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
