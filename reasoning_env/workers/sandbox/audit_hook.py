"""A Python audit hook that refuses what no verifier needs, and remembers that it did.

It stops the first step of hostile Python code, not code that already runs. Once installed it cannot be removed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

WRITING = (
    (os.O_WRONLY | os.O_RDWR, os.O_WRONLY),
    (os.O_WRONLY | os.O_RDWR, os.O_RDWR),
    (os.O_WRONLY | os.O_RDWR, os.O_WRONLY | os.O_RDWR),
    (os.O_CREAT, os.O_CREAT),
    (os.O_TRUNC, os.O_TRUNC),
)
"""Masks, and the flags under them with which opening a file changes something."""

REFUSED_FAMILIES = """
_posixsubprocess _thread _winapi code cpython ctypes ensurepip fcntl ftplib function gc http imaplib msvcrt nntplib os
pdb poplib pty resource shutil signal smtplib socket sqlite3 subprocess sys syslog telnetlib tempfile urllib webbrowser
winreg
"""
"""First parts of the names of audit events that no verifier needs to raise."""
HARMLESS_EVENTS = frozenset(
    {"os.fwalk", "os.walk", "sys._getframe", "sys._getframemodulename", "sys.excepthook", "sys.unraisablehook"}
)
REFUSED_EVENTS = frozenset({"builtins.breakpoint", "builtins.input", "builtins.input/result", "setopencodehook"})
IMPORT_EVENTS = frozenset({"code", "ctypes", "function", "os.putenv", "os.unsetenv"})
"""Events and families that modules raise while they are imported."""

FROZEN = "<frozen "
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
OWN_SOURCE = frozenset(
    {
        "collections.namedtuple",
        "dataclasses._create_fn",
        "dataclasses.add_fns_to_class",
        "sympy.integrals.meijerint._create_lookup_table",
        "sympy.polys.monomials._build",
        "sympy.simplify.hyperexpand.add_formulae",
    }
)
"""Functions that evaluate source of their own: fixed text, or made of numbers and names that they have checked."""


class Refused(PermissionError):
    """The audit hook refused something; a PermissionError, as when the operating system does."""


class AuditHook:
    """Refuses audit events and remembers the first one, since verifiers swallow exceptions."""

    def __init__(self, read_paths: Sequence[str]) -> None:
        self.refused: str | None = None
        self._readable = tuple({os.path.join(path, "") for path in read_paths})
        self._trusted = (*self._readable, FROZEN)
        self._checks: dict[str, Callable[[tuple[Any, ...]], bool] | None] = {
            "exec": lambda args: self._may_run(args[0]),
            "open": lambda args: self._may_open(*args),
            "os.listdir": lambda args: self.may_read(args[0]),
            "os.scandir": lambda args: self.may_read(args[0]),
        }

    def install(self) -> None:
        def hook(event: str, args: tuple[Any, ...]) -> None:
            if not self.allows(event, args):
                self.refused = self.refused or event
                raise Refused(f"a verifier worker may not do this: {event}")

        sys.addaudithook(hook)

    def allows(self, event: str, args: tuple[Any, ...]) -> bool:
        """Tell whether a verifier may raise an audit event."""
        try:
            check = self._checks[event]
        except KeyError:
            check = self._checks[event] = _choose_check(event)
        return check is None or check(args)

    def may_read(self, path: Any) -> bool:
        """Tell whether a path lies below one of the folders, by its text; Landlock checks where links lead."""
        if isinstance(path, int):
            return True  # a file that is open already
        name = os.path.abspath("." if path is None else os.fsdecode(path))
        return os.path.join(name, "").startswith(self._readable)

    def _may_open(self, path: Any, mode: str | None, flags: int) -> bool:
        # The mode counts as well: some callers in C report it with flags of 0.
        writes = any(flags & mask == value for mask, value in WRITING) or not set("wax+").isdisjoint(mode or "")
        return isinstance(path, int) if writes else self.may_read(path)

    def _may_run(self, code: CodeType) -> bool:
        if code.co_filename.startswith(self._trusted):
            return True
        return any(_is_import(frame) or _qualified_name(frame) in OWN_SOURCE for frame in _callers())


def _choose_check(event: str) -> Callable[[tuple[Any, ...]], bool] | None:
    family = event.partition(".")[0]
    if event in HARMLESS_EVENTS or (family not in REFUSED_FAMILIES.split() and event not in REFUSED_EVENTS):
        return None
    if family in IMPORT_EVENTS or event in IMPORT_EVENTS:
        return lambda args: any(map(_is_import, _callers()))
    return lambda args: False


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
