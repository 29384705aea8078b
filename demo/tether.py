"""Runs a command, and ends it with all that it started once standard input ends.

Usage: `python tether.py GRACE_S COMMAND [ARGUMENT ...]`, with a pipe as standard input whose other end the starter
holds and never writes to. To stop the command the starter closes its end; if the starter is killed, the operating
system closes it. Either way the command's process group gets SIGTERM and, after GRACE_S seconds, SIGKILL. What the
command leaves running in its group is killed when it ends. The exit status is the command's.

Stands alone, standard library only, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
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
    threading.Thread(target=end_with_input, args=(process.pid, grace_s), daemon=True).start()
    # Not collected yet, the command keeps its process group's number from being given to another.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    signal_group(process.pid, signal.SIGKILL)
    status = process.wait()
    return status if status >= 0 else 128 - status


def end_with_input(group: int, grace_s: float) -> None:
    """Wait until standard input ends, then end the process group. The main thread ends this one when that is done."""
    # Not sys.stdin, whose lock this thread would hold when the interpreter ends.
    os.read(0, 1)
    signal_group(group, signal.SIGTERM)
    threading.Event().wait(grace_s)
    signal_group(group, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, which may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
