"""Apply a seccomp profile of Docker to this process, then run a command: `seccomp_profile.py PROFILE WORD ...`.

Stands alone, because it runs inside an image. The process has no capabilities, as a container with `--cap-drop ALL`.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
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


def load(profile: dict[str, Any]) -> None:
    """Apply a profile to this process and its children, for good. System calls that libseccomp lacks are left out."""
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
    calls.load()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        load(json.load(file))
    os.execvp(sys.argv[2], sys.argv[2:])
