"""Operations that probe the sandbox, and a driver that runs each in a process with chosen sandbox layers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

LANDLOCK, SECCOMP = "Landlock", "seccomp"
BOTH = (LANDLOCK, SECCOMP)

HOSTILE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "write a file": ("open(CLOSED + '/new', 'w')", BOTH),
    "write a file below a read folder": ("open(OPEN + '/new', 'w')", BOTH),
    "append to a file": ("open(CLOSED + '/kept', 'a')", BOTH),
    "update a file": ("open(OPEN + '/text', 'r+')", BOTH),
    "empty a file": ("os.open(OPEN + '/text', os.O_RDONLY | os.O_TRUNC)", BOTH),
    "remove a file": ("os.unlink(CLOSED + '/doomed')", BOTH),
    "rename a file": ("os.rename(CLOSED + '/movable', CLOSED + '/moved')", BOTH),
    "make a folder": ("os.mkdir(CLOSED + '/folder')", BOTH),
    "make a link": ("os.symlink('/etc', CLOSED + '/link')", BOTH),
    "change permissions": ("os.chmod(CLOSED + '/kept', 0o600)", (SECCOMP,)),
    "change times": ("os.utime(CLOSED + '/kept')", (SECCOMP,)),
    "read a system file": ("open('/etc/passwd').read()", (LANDLOCK,)),
    "read through dots": ("open(OPEN + '/..' * 20 + '/etc/passwd')", (LANDLOCK,)),
    "read in the working folder": ("open('kept')", (LANDLOCK,)),
    "read the parent's environment": ("open(f'/proc/{os.getppid()}/environ').read()", (LANDLOCK,)),
    "list a folder": ("os.listdir('/etc')", (LANDLOCK,)),
    "open a network socket": ("socket.socket()", (SECCOMP,)),
    "open a local socket": ("socket.socketpair()", (SECCOMP,)),
    "send to an address": ("sender.sendto(b'x', 'address')", (SECCOMP,)),
    "fork": ("os.fork() or os._exit(0)", (SECCOMP,)),
    "start a program": ("subprocess.run(['/bin/true'], check=True)", BOTH),
    "become a program": ("os.execv('/bin/true', ['true'])", BOTH),
    "signal the parent": ("os.kill(os.getppid(), 0)", (SECCOMP,)),
    "signal the group": ("os.killpg(os.getpgrp(), 0)", (SECCOMP,)),
    "signal through a file": ("fcntl.fcntl(kept, fcntl.F_SETOWN, os.getppid())", (SECCOMP,)),
    "signal through a socket": (
        "fcntl.ioctl(left, 0x8901, os.getppid().to_bytes(4, sys.byteorder))",
        (SECCOMP,),
    ),
    "raise a limit": (
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))",
        (SECCOMP,),
    ),
    "outlive the parent": (
        "if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0):\n    raise OSError(ctypes.get_errno(), 'prctl')",
        (SECCOMP,),
    ),
    "move the parent to another core": ("os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))", (SECCOMP,)),
    "lock a file": ("fcntl.flock(kept, fcntl.LOCK_SH)", (SECCOMP,)),
    "lock a part of a file": ("fcntl.lockf(kept, fcntl.LOCK_SH)", (SECCOMP,)),
    "lease a file": ("fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_RDLCK)", (SECCOMP,)),
    "start a thread": ("_thread.start_new_thread(int, ())", (SECCOMP,)),
}
"""Python source by name, with the layers that must deny the operation, even if no other layer is active."""

HARMLESS: Mapping[str, str] = {
    "import pure Python": "assert 'tabnanny' not in sys.modules\nimport tabnanny",
    "import an extension": (
        "import importlib.util\n"
        "names = [name for name in ('_lsprof', '_zoneinfo', 'cmath', '_elementtree') if name not in sys.modules]\n"
        "specs = [spec for spec in map(importlib.util.find_spec, names) if spec and '.so' in (spec.origin or '')]\n"
        "assert specs[0].loader.create_module(specs[0])"
    ),
    "fail to import": "try:\n    import there_is_no_such_module\nexcept ModuleNotFoundError:\n    pass",
    "calculate with numpy": (
        "assert 'numpy' not in sys.modules\nimport numpy\n"
        "assert numpy.isclose(numpy.linalg.det(numpy.eye(2)), 1) and numpy.random.default_rng(1).random() < 1"
    ),
    "differentiate with sympy": (
        "assert 'sympy' not in sys.modules\nimport sympy\nx = sympy.Symbol('x')\n"
        "assert sympy.diff(x**3 * sympy.sin(x), x) == x**3 * sympy.cos(x) + 3 * x**2 * sympy.sin(x)"
    ),
    "talk on an inherited socket": (
        "left.sendall(b'question')\nassert right.recv(8) == b'question'\n"
        "right.sendall(b'answer')\nassert left.recv_into(bytearray(6)) == 6"
    ),
    "read below a read folder": "assert open(OPEN + '/text').read() == 'text'",
    "list a read folder": "assert 'text' in os.listdir(OPEN)",
    "read an open file": "assert os.read(kept, 4) == b'kept'",
    "write to an open file": "open(null, 'w').write('x')",
    "limit the time": (
        "import signal, time\nfired = []\nsignal.signal(signal.SIGALRM, lambda *_: fired.append(1))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001)\ntime.sleep(0.01)\nassert fired"
    ),
    "ask for a limit": "resource.getrlimit(resource.RLIMIT_AS)",
}
"""Operations of verifiers and their libraries, which every layer must allow."""

THREADED: Mapping[str, str] = {
    "calculate in a pool": (
        "from concurrent.futures import ThreadPoolExecutor\nimport numpy\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    assert sum(pool.map(numpy.linalg.det, [numpy.eye(2)] * 20)) == 20"
    ),
    "wait for a timer": (
        "import threading\nfired = threading.Event()\nthreading.Timer(0.01, fired.set).start()\nassert fired.wait(10)"
    ),
}
"""Operations of score functions that have permission to start threads."""

DRIVER = """
import _thread, ctypes, fcntl, json, os, resource, socket, subprocess, sys
from reasoning_env.workers.sandbox import code_paths, prepare

plan = json.load(sys.stdin)
OPEN, CLOSED = plan["open"], plan["closed"]
os.chdir(CLOSED)
left, right = socket.socketpair()
receiver, sender = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind("address")
kept, null = os.open("kept", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
prepared = prepare(1 << 40, [*code_paths(), OPEN], threads=plan["threads"])
sandbox = {name: apply for name, apply in prepared.layers.items() if name in plan["layers"]}

def run(source):
    for apply in sandbox.values():
        apply()
    try:
        exec(source, globals())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ran"

outcomes = {}
for name, source in plan["sources"].items():
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, run(source).encode())
        finally:
            os._exit(1)
    os.close(write_end)
    with open(read_end) as report:
        outcome = report.read()
    became_another_program = os.waitpid(pid, 0)[1] == 0
    outcomes[name] = outcome or ("ran" if became_another_program else "died")
made = prepared.restrictions
print(json.dumps({"layers": made.layers, "missing": made.missing, "outcomes": outcomes}))
"""


@dataclass(frozen=True)
class Run:
    """The sandbox layers of this machine, the causes of missing layers, and the outcome of each operation."""

    layers: list[str]
    missing: dict[str, str]
    outcomes: dict[str, str]


def run_probes(layers: Collection[str], sources: Mapping[str, str], folder: Path, *, threads: bool = False) -> Run:
    readable, closed = folder / "open", folder / "closed"
    readable.mkdir()
    (readable / "text").write_text("text")
    closed.mkdir()
    for name in ("kept", "doomed", "movable"):
        (closed / name).write_text("kept")
    plan = {
        "layers": list(layers),
        "open": str(readable),
        "closed": str(closed),
        "sources": sources,
        "threads": threads,
    }
    report: dict[str, Any] = json.loads(run_python(DRIVER, json.dumps({**plan, "sources": sources})))
    return Run(**report)


def run_python(script: str, text: str = "", within: Sequence[str] = ()) -> str:
    """Run a script in a new interpreter, and return its output. `within` is a command that starts the interpreter."""
    done = subprocess.run(
        [*within, sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
