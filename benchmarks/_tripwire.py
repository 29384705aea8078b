"""Record code that does more than verifiers need, with Python's audit events. Nothing is denied."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

NEEDLESS_FAMILIES = frozenset({
    "_posixsubprocess",
    "_thread",
    "_winapi",
    "code",
    "cpython",
    "ctypes",
    "ensurepip",
    "fcntl",
    "ftplib",
    "function",
    "gc",
    "http",
    "imaplib",
    "msvcrt",
    "nntplib",
    "os",
    "pdb",
    "poplib",
    "pty",
    "resource",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "syslog",
    "telnetlib",
    "tempfile",
    "urllib",
    "webbrowser",
    "winreg",
})  # fmt: skip
"""Prefixes of audit events that no verifier raises."""
NEEDLESS_EVENTS = frozenset({"builtins.breakpoint", "builtins.input", "builtins.input/result", "setopencodehook"})
HARMLESS_EVENTS = frozenset(
    {"os.fwalk", "os.walk", "sys._getframe", "sys._getframemodulename", "sys.excepthook", "sys.unraisablehook"}
)
IMPORT_EVENTS = frozenset({"code", "ctypes", "function", "os.putenv", "os.unsetenv"})
"""Events, and prefixes of events, that modules raise while they are imported."""
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
OWN_SOURCE = frozenset({
    "collections.namedtuple",
    "dataclasses._create_fn",
    "dataclasses.add_fns_to_class",
    "sympy.integrals.meijerint._create_lookup_table",
    "sympy.polys.monomials._build",
    "sympy.simplify.hyperexpand.add_formulae",
})  # fmt: skip
"""Functions that evaluate their own source: fixed text, or text made of checked numbers and names."""


class Tripwire:
    """Records events that verifiers do not need, while armed. An audit hook cannot be removed from its process.

    Verifiers may read below `read_paths`. They may not run code or read elsewhere.
    """

    def __init__(self, read_paths: Sequence[str]) -> None:
        self.events: list[str] = []
        self._readable = tuple({os.path.join(path, "") for path in read_paths})
        self._armed = False
        sys.addaudithook(self._on_event)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        self.events.clear()
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self._armed:
            self._armed = False  # ignore the events of the checks themselves
            if not self._is_needed(event, args):
                self.events.append(f"{event} {args!r}"[:100])
            self._armed = True

    def _is_needed(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "exec":
            return self._may_run(args[0])
        if event == "open":
            return self._may_open(*args)
        if event in ("os.listdir", "os.scandir"):
            return self._may_read(args[0])
        family = event.partition(".")[0]
        if event in HARMLESS_EVENTS or (family not in NEEDLESS_FAMILIES and event not in NEEDLESS_EVENTS):
            return True
        return (family in IMPORT_EVENTS or event in IMPORT_EVENTS) and any(map(_is_import, _callers()))

    def _may_read(self, path: Any) -> bool:
        if isinstance(path, int):
            return True  # a file that is open already
        name = os.path.abspath("." if path is None else os.fsdecode(path))
        return os.path.join(name, "").startswith(self._readable)

    def _may_open(self, path: Any, mode: str | None, flags: int) -> bool:
        # The mode counts as well: some callers in C report it with flags of 0.
        changes = flags & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC) or not set("wax+").isdisjoint(mode or "")
        # Since Python 3.13, a SyntaxError tries to read its line from the file that `compile` names.
        return isinstance(path, int) if changes else path == "<string>" or self._may_read(path)

    def _may_run(self, code: CodeType) -> bool:
        if code.co_filename.startswith((*self._readable, "<frozen ")):
            return True
        return any(_is_import(frame) or _qualified_name(frame) in OWN_SOURCE for frame in _callers())


def _callers() -> Iterator[FrameType]:
    """Return the frames on the stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_import(frame: FrameType) -> bool:
    return frame.f_code.co_filename == IMPORT_SYSTEM


def _qualified_name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
