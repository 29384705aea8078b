"""In place of Python, for pytest-xdist: `python_stand_in.py SOCKET -u -c CODE`.

The process that waits at the socket (`waiting_python.py`) gets the standard streams of this process and runs the code.
This process ends with it. When pytest-xdist replaces a process that has crashed, no process waits at the socket, and
Python itself runs the code.
"""

import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect(sys.argv[1])
    except OSError:
        os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
    socket.send_fds(connection, [sys.argv[-1].encode()], [0, 1, 2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, pytest ends the other process
    connection.recv(1)  # returns when the other process has ended
