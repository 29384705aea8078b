"""Run a command under a seccomp profile of Docker, as in a container with `--cap-drop ALL`.

The profile is compiled where libseccomp is. The command may run where Python is and nothing else, inside an image.
"""

from __future__ import annotations

import errno
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import pyseccomp  # type: ignore[import-untyped]

ARCHES = {"x86_64": {"amd64", "x32", "x86"}, "aarch64": {"arm64", "arm"}}
COMPARISONS = {
    "SCMP_CMP_NE": pyseccomp.NE,
    "SCMP_CMP_LT": pyseccomp.LT,
    "SCMP_CMP_LE": pyseccomp.LE,
    "SCMP_CMP_EQ": pyseccomp.EQ,
    "SCMP_CMP_GE": pyseccomp.GE,
    "SCMP_CMP_GT": pyseccomp.GT,
    "SCMP_CMP_MASKED_EQ": pyseccomp.MASKED_EQ,
}


def applies(rule: dict[str, Any]) -> bool:
    """Tell whether a rule holds for this machine and no capabilities."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    arches = ARCHES[platform.machine()]
    if includes.get("caps") or not arches & set(includes.get("arches") or arches):
        return False
    return not arches & set(excludes.get("arches") or ())


def argument(condition: dict[str, Any]) -> Any:
    """Return a rule's condition on an argument of a system call."""
    comparison = COMPARISONS[condition["op"]]
    if comparison == pyseccomp.MASKED_EQ:
        return pyseccomp.Arg(condition["index"], comparison, condition["value"], condition.get("valueTwo", 0))
    return pyseccomp.Arg(condition["index"], comparison, condition["value"])


LOAD = """
import ctypes, os, sys
code = bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
if ctypes.CDLL(None).prctl(22, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0):
    sys.exit("the profile cannot be applied")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def under(profile: Path) -> list[str]:
    """Return the words before a command that apply a profile to it, for good. The process needs no_new_privs."""
    return ["python", "-c", LOAD, _compile(json.loads(profile.read_text(encoding="utf-8"))).hex()]


def _compile(profile: dict[str, Any]) -> bytes:
    """Return a profile as a program of the kernel. System calls that libseccomp lacks are left out."""
    denied = profile.get("defaultErrnoRet", errno.EPERM)
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(denied))
    for rule in filter(applies, profile["syscalls"]):
        if rule["action"] == "SCMP_ACT_ALLOW":
            action = pyseccomp.ALLOW
        else:
            action = pyseccomp.ERRNO(rule.get("errnoRet", denied))
            if rule.get("errnoRet", denied) == denied:
                continue
        for name in rule["names"]:
            try:
                calls.add_rule(action, name, *map(argument, rule.get("args") or ()))
            except (OSError, RuntimeError, ValueError):
                continue
    with tempfile.TemporaryFile() as file:
        calls.export_bpf(file)
        file.seek(0)
        return file.read()
