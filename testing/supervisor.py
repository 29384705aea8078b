"""Runs a command, and ends it with all that it started once the process that asked for it is gone.

Usage: `python supervisor.py GRACE_S COMMAND [ARGUMENT ...]`, with one end of a socket pair as standard input. The
supervisor writes a line of JSON to it, `{"pid": N}`, and then waits for its end: the starter closes the other end to
stop the command, and if the starter is killed, the operating system closes it. Either way the command's process group
gets SIGTERM and, after GRACE_S seconds, SIGKILL. What the command leaves running in its group is killed when it ends.
The exit status is the command's, 128 + N if signal N ended it.

Stands alone, standard library only, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading


def main(grace_s: float, command: list[str]) -> int:
    """Run the command to its end and return its exit status."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: signal_group(process.pid, number))
    os.write(0, json.dumps({"pid": process.pid}).encode() + b"\n")
    threading.Thread(target=end_with_starter, args=(process.pid, grace_s), daemon=True).start()
    status = process.wait()
    signal_group(process.pid, signal.SIGKILL)
    return status if status >= 0 else 128 - status


def end_with_starter(group: int, grace_s: float) -> None:
    """Wait for the end of standard input, then end the process group; the end of the main thread ends this one."""
    # Not sys.stdin, whose lock this thread would hold when the interpreter ends.
    while os.read(0, 1):
        pass
    signal_group(group, signal.SIGTERM)
    signal_group(group, signal.SIGCONT)  # one that is stopped could not end
    threading.Event().wait(grace_s)
    signal_group(group, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, which may be gone (macOS then says that it is not permitted)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
