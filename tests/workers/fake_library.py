"""A fake library whose tasks misbehave on request. It is written into a folder that serves as a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = """\
__version__ = "0.0.fake"


def create_dataset(name, **config):
    from .factory import DATASETS

    dataset_cls, config_cls = DATASETS[name]
    return dataset_cls(config_cls(**config))
"""

FACTORY = """\
from .acts.generating import GENERATING, Config

DATASETS = {name: (dataset_cls, Config) for name, dataset_cls in GENERATING.items()}
"""

ACTS = '''\
import os
import signal
import stat
import subprocess
import sys
import time


def act(verb):
    """Misbehave as the verb tells."""
    if verb == "raise":
        raise ValueError("no such puzzle")
    if verb == "exit":
        sys.exit("leaving")
    if verb == "interrupt":
        raise KeyboardInterrupt
    if verb == "crash":
        os._exit(3)
    if verb == "abort":
        os.abort()
    if verb == "killed":  # as the kernel or somebody else kills a worker
        os.kill(os.getpid(), signal.SIGKILL)
    while verb == "hang":
        pass
    blocks = []
    while verb == "memory":
        blocks.append(bytes(1 << 24))
    if verb == "noisy":  # prints, warns on stderr and leaves files behind
        print("noise")
        print("noise", file=sys.stderr)
        with open("left_behind", "w") as file:
            file.write("noise")


def score(answer, entry):
    """Do what the answer tells; compare any other answer with the entry's."""
    tagged = answer.startswith("<answer>")
    verb, _, rest = answer.removeprefix("<answer>").removesuffix("</answer>").partition(" ")
    if verb == "number":  # the score for the bare form and the one for the tagged form
        return float(rest.split()[tagged])
    if verb == "raise_untagged" and not tagged:
        raise ValueError("cannot read this")
    if verb == "text":
        return "a score that is no number"
    if verb == "python":  # a verifier without a guard: runs the answer, and tells whether the system let it
        try:
            exec(rest, {"os": os, "sys": sys, "subprocess": subprocess})
        except PermissionError:
            return 0.5
        return 1.0
    act(verb)
    if verb == "spawn":  # starts a process of its own, whose pid goes into a file, and hangs
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(rest + ".part", "w") as file:
            file.write(str(child.pid))
        os.rename(rest + ".part", rest)
        time.sleep(600)
    if verb == "big_file":
        with open("big", "wb") as file:
            file.write(b"x" * (20 << 20))
    if verb == "sleep":
        time.sleep(float(rest.split()[0]))
    if verb == "spoil":  # writes into the entry, which must not show in the next call
        entry["answer"] = "spoilt"
        return 0.0
    if verb == "once":  # the rest of the answer is done the first time only
        marker, _, deed = rest.partition(" ")
        if not os.path.exists(marker):
            open(marker, "w").close()
            return score(deed, entry)
        return 0.75
    if verb == "forge":  # sends bytes of its own over the verifier worker's socket
        _send(bytes.fromhex(rest))
        time.sleep(60)
    if verb in ("noisy", "raise_untagged"):
        return 1.0
    return 1.0 if answer == entry["answer"] else 0.0


def _send(data):
    for descriptor in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, data)
        except OSError:
            continue
'''

GENERATING = '''\
import json
import os
import re
import resource
import sys
import time

from .acts import act, score


class Config:
    def __init__(self, seed, size, **params):
        self.seed, self.size, self.params = seed, size, params


class Base:
    """Question and answer are the seed; metadata holds the parameters. The name of the class may be an act."""

    def __init__(self, config):
        self.config = config
        self.seed = config.seed

    def __getitem__(self, index):
        act(type(self).__name__.lower())
        return {"question": f"question {self.seed}", "answer": str(self.seed), "metadata": self.config.params}

    def score_answer(self, answer, entry):
        return score(answer, entry)


class Hang(Base):
    """Tells that it began, then keeps a core busy for ever."""

    def __getitem__(self, index):
        if "marker" in self.config.params:
            open(self.config.params["marker"], "w").close()
        act("hang")


class NoAnswer(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "answer": None}


class NumberAnswer(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "answer": 7}


class NoMetadata(Base):
    def __getitem__(self, index):
        entry = super().__getitem__(index)
        del entry["metadata"]
        return entry


class OddMetadata(Base):
    def __getitem__(self, index):
        odd = {(1, 2): {3}, "nan": float("nan"), "deep": [(1.5, None, True)], "object": 1 + 2j}
        return {**super().__getitem__(index), "metadata": odd}


class Huge(Base):
    """A question over the limit of a frame's header."""

    def __getitem__(self, index):
        return {**super().__getitem__(index), "question": "x" * (5 << 20)}


class Unbuildable(Base):
    """Cannot be built in a process that does not generate: a verifier worker fails before it reads an answer."""

    def __init__(self, config):
        if config.seed == 0:
            raise ValueError("\\u00e9" * 2000)
        super().__init__(config)


class BuildCrash(Base):
    """Ends the process that builds it."""

    def __init__(self, config):
        os._exit(3)


class SlowBuild(Base):
    """Takes a second to build; some tasks of the library take a third of a second."""

    def __init__(self, config):
        time.sleep(1.0)
        super().__init__(config)


class Inspect(Base):
    """Reports the properties of the worker process as the question."""

    def __getitem__(self, index):
        descriptors = []
        for descriptor in range(256):
            try:
                os.fstat(descriptor)
            except OSError:
                continue
            descriptors.append(descriptor)
        null = os.stat(os.devnull).st_rdev
        report = {
            "pid": os.getpid(),
            "session": os.getsid(0),
            "environment": dict(os.environ),
            "directory": os.getcwd(),
            "descriptors": descriptors,
            "stdio_is_null": [os.fstat(descriptor).st_rdev == null for descriptor in (0, 1, 2)],
            "niceness": os.nice(0),
            "memory": resource.getrlimit(resource.RLIMIT_AS),
            "file_size": resource.getrlimit(resource.RLIMIT_FSIZE),
            "hash_randomization": sys.flags.hash_randomization,
            "stdin": sys.stdin.read(),
            "has_sympy": "sympy" in sys.modules,
        }
        return {**super().__getitem__(index), "question": json.dumps(report)}


ACTS = ("ok", "raise", "exit", "crash", "abort", "killed", "memory", "noisy")
ACTING = {name: type(name, (Base,), {}) for name in ACTS}
GENERATING = {re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower(): cls for cls in Base.__subclasses__()}
'''


def write_fake_library(folder: Path) -> Path:
    """Write the package `reasoning_gym` into `folder`, and return this checkout."""
    package = folder / "reasoning_gym"
    (package / "acts").mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "factory.py").write_text(FACTORY)
    (package / "acts" / "__init__.py").write_text("")
    (package / "acts" / "acts.py").write_text(ACTS)
    (package / "acts" / "generating.py").write_text(GENERATING)
    return folder
