"""What is tried behind the layers of the sandbox, and a driver that tries each in a process forked for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

LANDLOCK, SECCOMP, HOOK = "Landlock", "seccomp", "audit hook"
BOTH = (LANDLOCK, SECCOMP)
ALL = ("no_new_privs", "process limit", LANDLOCK, SECCOMP, HOOK)


@dataclass(frozen=True)
class Hostile:
    """Source that is to be refused: by which layers of the operating system, each alone, and as which audit event."""

    source: str
    layers: tuple[str, ...]
    event: str


HOSTILE: Mapping[str, Hostile] = {
    "write a file": Hostile("open(CLOSED + '/new', 'w')", BOTH, "open"),
    "write a file below a read folder": Hostile("open(OPEN + '/new', 'w')", BOTH, "open"),
    "append to a file": Hostile("open(CLOSED + '/kept', 'a')", BOTH, "open"),
    "update a file": Hostile("open(OPEN + '/text', 'r+')", BOTH, "open"),
    "empty a file": Hostile("os.open(OPEN + '/text', os.O_RDONLY | os.O_TRUNC)", BOTH, "open"),
    "remove a file": Hostile("os.unlink(CLOSED + '/doomed')", BOTH, "os.remove"),
    "rename a file": Hostile("os.rename(CLOSED + '/movable', CLOSED + '/moved')", BOTH, "os.rename"),
    "make a folder": Hostile("os.mkdir(CLOSED + '/folder')", BOTH, "os.mkdir"),
    "make a link": Hostile("os.symlink('/etc', CLOSED + '/link')", BOTH, "os.symlink"),
    "change permissions": Hostile("os.chmod(CLOSED + '/kept', 0o600)", (SECCOMP,), "os.chmod"),
    "change times": Hostile("os.utime(CLOSED + '/kept')", (SECCOMP,), "os.utime"),
    "read a system file": Hostile("open('/etc/passwd').read()", (LANDLOCK,), "open"),
    "read through dots": Hostile("open(OPEN + '/..' * 20 + '/etc/passwd')", (LANDLOCK,), "open"),
    "read in the working folder": Hostile("open('kept')", (LANDLOCK,), "open"),
    "read the parent's environment": Hostile("open(f'/proc/{os.getppid()}/environ').read()", (LANDLOCK,), "open"),
    "list a folder": Hostile("os.listdir('/etc')", (LANDLOCK,), "os.listdir"),
    "scan a folder": Hostile("list(os.scandir(CLOSED))", (LANDLOCK,), "os.scandir"),
    "open a network socket": Hostile("socket.socket()", (SECCOMP,), "socket.__new__"),
    "open a local socket": Hostile("socket.socketpair()", (SECCOMP,), "socket.__new__"),
    "send to an address": Hostile("sender.sendto(b'x', 'address')", (SECCOMP,), "socket.sendto"),
    "fork": Hostile("os.fork() or os._exit(0)", (SECCOMP,), "os.fork"),
    "start a program": Hostile("subprocess.run(['/bin/true'], check=True)", BOTH, "subprocess.Popen"),
    "become a program": Hostile("os.execv('/bin/true', ['true'])", BOTH, "os.exec"),
    "signal the parent": Hostile("os.kill(os.getppid(), 0)", (SECCOMP,), "os.kill"),
    "signal the group": Hostile("os.killpg(os.getpgrp(), 0)", (SECCOMP,), "os.killpg"),
    "signal through a file": Hostile("fcntl.fcntl(kept, fcntl.F_SETOWN, os.getppid())", (SECCOMP,), "fcntl.fcntl"),
    "signal through a socket": Hostile(
        "fcntl.ioctl(left, 0x8901, os.getppid().to_bytes(4, sys.byteorder))", (SECCOMP,), "fcntl.ioctl"
    ),
    "raise a limit": Hostile(
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))",
        (SECCOMP,),
        "resource.setrlimit",
    ),
    "outlive the parent": Hostile(
        "if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0):\n    raise OSError(ctypes.get_errno(), 'prctl')",
        (SECCOMP,),
        "ctypes.dlopen",
    ),
}
"""What the operating system can tell. Whether the hook is told as well is up to the names of its events."""

HOSTILE_CODE: Mapping[str, Hostile] = {
    "evaluate text": Hostile("eval('1 + 1')", (), "exec"),
    "execute text": Hostile("exec('x = 1')", (), "exec"),
    "execute compiled text": Hostile("exec(compile('x = 1', '<answer>', 'exec'))", (), "exec"),
    "evaluate a type hint": Hostile(
        "import typing\nclass C:\n    x: 'type(1)'\nassert typing.get_type_hints(C)", (), "exec"
    ),
    "parse with sympy": Hostile("import sympy\nsympy.parse_expr('x + 1')", (), "exec"),
    "build a function with sympy": Hostile("import sympy\nsympy.lambdify([], sympy.pi)", (), "exec"),
    "alter code": Hostile("function.__code__.replace(co_name='x')", (), "code.__new__"),
    "build a function": Hostile("type(function)(function.__code__, {})", (), "function.__new__"),
    "look through memory": Hostile("import gc\ngc.get_objects()", (), "gc.get_objects"),
    "read memory": Hostile("ctypes.string_at(id(1), 4)", (), "ctypes.string_at"),
    "run a shell": Hostile("os.system('true')", (), "os.system"),
    "change the environment": Hostile("os.environ['A'] = 'b'", (), "os.putenv"),
    "trace": Hostile("sys.settrace(None)", (), "sys.settrace"),
    "read other frames": Hostile("sys._current_frames()", (), "sys._current_frames"),
    "make a temporary folder": Hostile("import tempfile\ntempfile.mkdtemp(dir=CLOSED)", (), "tempfile.mkdtemp"),
    "remove a tree": Hostile("import shutil\nshutil.rmtree(CLOSED + '/tree')", (), "shutil.rmtree"),
}
"""What the hook alone has to refuse."""
PROBES = {**HOSTILE, **HOSTILE_CODE}

HARMLESS: Mapping[str, str] = {
    "import a module that makes code": (
        "import sample\nassert sample.Point(1).x + sample.Pair(1, 2).b + sample.made == 7"
    ),
    "import pure Python": "assert 'tabnanny' not in sys.modules\nimport tabnanny",
    "import an extension": (
        "import importlib.util\n"
        "names = [name for name in ('_lsprof', '_zoneinfo', 'cmath', '_elementtree') if name not in sys.modules]\n"
        "specs = [spec for spec in map(importlib.util.find_spec, names) if spec and '.so' in (spec.origin or '')]\n"
        "assert specs[0].loader.create_module(specs[0])"
    ),
    "fail to import": "try:\n    import there_is_no_such_module\nexcept ModuleNotFoundError:\n    pass",
    "make classes at run time": (
        "import collections\nassert collections.namedtuple('P', 'a b')(1, 2).b == 2\n"
        "assert dataclasses.make_dataclass('D', ['a'])(1).a == 1"
    ),
    "calculate with numpy": (
        "assert 'numpy' not in sys.modules\nimport numpy\n"
        "assert numpy.isclose(numpy.linalg.det(numpy.eye(2)), 1) and numpy.random.default_rng(1).random() < 1"
    ),
    "differentiate and simplify with sympy": (
        "assert 'sympy' not in sys.modules\nimport sympy\nx = sympy.Symbol('x')\n"
        "slope = sympy.diff(x**3 * sympy.sin(x), x)\n"
        "assert sympy.simplify(slope) == x**2 * (x * sympy.cos(x) + 3 * sympy.sin(x))"
    ),
    "use the tables of sympy": (
        "import sympy\nfrom sympy.integrals.meijerint import meijerint_indefinite\n"
        "from sympy.simplify.hyperexpand import FormulaCollection\nx = sympy.Symbol('x')\n"
        "assert meijerint_indefinite(sympy.exp(-x**2), x) and FormulaCollection().formulae"
    ),
    "read a literal": "import ast\nassert ast.literal_eval('[1, (2, 3)]') == [1, (2, 3)]\nast.parse('a + b')",
    "unpickle an entry": (
        "import fractions, pickle\nentry = {'answer': (1, 'a'), 'metadata': {1: fractions.Fraction(1, 3)}}\n"
        "assert pickle.loads(pickle.dumps(entry)) == entry"
    ),
    "talk on an inherited socket": (
        "left.sendall(b'question')\nassert right.recv(8) == b'question'\n"
        "right.sendall(b'answer')\nassert left.recv_into(bytearray(6)) == 6"
    ),
    "read below a read folder": "assert open(OPEN + '/text').read() == 'text'",
    "list a read folder": "assert 'text' in os.listdir(OPEN) and list(pathlib.Path(OPEN).glob('te*'))",
    "read an open file": "assert os.read(kept, 4) == b'kept'",
    "write to an open file": "open(null, 'w').write('x')",
    "ask for a limit": "resource.getrlimit(resource.RLIMIT_AS)",
}

OTHERS = {
    "start a thread": "import _thread\n_thread.start_new_thread(int, ())",
    "add a hook": "heard = []\nsys.addaudithook(lambda *event: heard.append(event))\nsys.audit('x')\nassert heard",
    "swallow": "try:\n    eval('1')\nexcept:\n    pass",
    "swallow two": "for probe in (lambda: os.kill(os.getppid(), 0), lambda: eval('1')):\n"
    "    try:\n        probe()\n    except Exception:\n        pass",
    "forget": "try:\n    eval('1')\nexcept OSError:\n    pass\nassert standing.take_refusal() == 'exec'",
}

SAMPLE = """
import collections, ctypes, dataclasses, enum, os
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
Pair = collections.namedtuple("Pair", "a b")
Colour = enum.Enum("Colour", "RED GREEN")
exec("made = eval('2 + 2')")
os.environ["SAMPLE"] = "1"
ctypes.string_at(b"text")
def function():
    return 1
function.__code__.replace(co_name="other")
type(function)(function.__code__, {})
"""

DRIVER = """
import ctypes, dataclasses, fcntl, json, os, pathlib, resource, socket, subprocess, sys
from reasoning_env.workers.sandbox import os_sandbox as sandbox

plan = json.load(sys.stdin)
OPEN, CLOSED = plan["open"], plan["closed"]
os.chdir(CLOSED)
sys.path += [CLOSED, OPEN]
left, right = socket.socketpair()
receiver, sender = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind("address")
kept, null = os.open("kept", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)

def function():
    pass

prepared = sandbox.prepare([*sandbox.code_paths(), OPEN])
chosen = [layer for layer in prepared.layers if layer.name in plan["layers"]]
standing = dataclasses.replace(prepared, layers=tuple(chosen))

probes = []
for source in plan["sources"]:
    space = dict(globals())
    exec("def probe():\\n" + "".join(f"    {line}\\n" for line in source.splitlines()), space)
    probes.append(space["probe"])

sys.path_importer_cache.clear()  # as when a folder has changed since it was last looked through

def run(probe):
    outcome = "ran"
    if standing.layers:
        standing.enter()
    try:
        probe()
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"
    return {"outcome": outcome, "refused": standing.take_refusal()}

results = []
for probe in probes:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, json.dumps(run(probe)).encode())
        finally:
            os._exit(1)
    os.close(write_end)
    with open(read_end, "rb") as report:
        text = report.read()
    status = os.waitpid(pid, 0)[1]
    became_another_program = not text and status == 0
    outcome = "ran" if became_another_program else "died"
    results.append(json.loads(text) if text else {"outcome": outcome, "refused": None})
names = [layer.name for layer in prepared.layers]
print(json.dumps({"standing": names, "missing": prepared.missing, "results": results}))
"""


@dataclass(frozen=True)
class Run:
    """Which layers hold on this machine, why the others do not, and what became of each probe."""

    standing: list[str]
    missing: dict[str, str]
    outcomes: dict[str, str]
    refused: dict[str, str | None]


def run_probes(layers: tuple[str, ...], folder: Path) -> Run:
    readable, closed = folder / "open", folder / "closed"
    readable.mkdir()
    (readable / "text").write_text("text")
    (readable / "sample.py").write_text(SAMPLE)
    (closed / "tree").mkdir(parents=True)
    for name in ("kept", "doomed", "movable"):
        (closed / name).write_text("kept")
    sources = HARMLESS if len(layers) > 2 else {**{name: probe.source for name, probe in PROBES.items()}, **OTHERS}
    plan = {"layers": layers, "open": str(readable), "closed": str(closed), "sources": list(sources.values())}
    report = json.loads(run_python(DRIVER, json.dumps(plan)))
    results = dict(zip(sources, report["results"], strict=True))
    return Run(
        report["standing"],
        report["missing"],
        {name: result["outcome"] for name, result in results.items()},
        {name: result["refused"] for name, result in results.items()},
    )


def run_python(script: str, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""},
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
