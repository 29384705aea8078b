"""The fuzzer's tripwire, tested in its own interpreter: an audit hook cannot be removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

CODE = {
    "evaluate text": "eval('1 + 1')",
    "execute compiled text": "exec(compile('x = 1', '<answer>', 'exec'))",
    "parse with sympy": "sympy.parse_expr('x + 1')",
    "alter code": "function.__code__.replace(co_name='x')",
    "look through memory": "gc.get_objects()",
    "read memory": "ctypes.string_at(id(1), 4)",
    "run a shell": "os.system('true')",
    "change the environment": "os.environ.update(A='b')",
    "open a socket": "socket.socket()",
    "read a file": "open('/etc/passwd')",
    "write a file": "open(os.devnull, 'w')",
    "list a folder": "os.listdir('/etc')",
}
HARMLESS = {
    "import a module": "import tabnanny",
    "make a named tuple": "collections.namedtuple('P', 'a b')(1, 2)",
    "read the library": "open(os.__file__).read()",
    "read a literal": "ast.literal_eval('[1, (2, 3)]')",
}
DRIVER = """
import ast, collections, ctypes, gc, json, os, socket, sys, sympy
from benchmarks._tripwire import Tripwire
from reasoning_env.workers.sandbox import code_paths

def function():
    pass

tripwire = Tripwire([*code_paths(), *filter(None, sys.path)])
noticed = {}
for name, source in json.load(sys.stdin).items():
    space = dict(globals())
    exec("def act():\\n    " + source, space)
    with tripwire.armed():
        space["act"]()
    noticed[name] = len(tripwire.events) > 0
print(json.dumps(noticed))
"""


def test_tripwire_flags_only_hostile_code() -> None:
    text = json.dumps({**CODE, **HARMLESS})
    command = [sys.executable, "-W", "ignore", "-c", DRIVER]
    ended = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == {**dict.fromkeys(CODE, True), **dict.fromkeys(HARMLESS, False)}
