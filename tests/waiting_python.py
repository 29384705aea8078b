"""Wait for code and standard streams, then run the code as `python -c CODE` does: `waiting_python.py SOCKET`.

The launcher runs this file in a fork that has imported the slow modules.
"""

import os
import socket
import sys
from types import ModuleType

with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("{}", flush=True)  # whoever started this process may connect now
    connection, _ = listener.accept()  # it stays open until this process ends
code, streams, _, _ = socket.recv_fds(connection, 4096, 3)
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
sys.argv = ["-c"]
sys.modules["__main__"] = ModuleType("__main__")
exec(code, vars(sys.modules["__main__"]))
