"""Restrict a verifier worker by operating system and Python audit hook. Runs inside workers only.

This is the second line of defence. Guards keep model text away from `eval` and its like; a text that slips past them
cannot write, run, signal or connect to anything, nor read files outside the interpreter and its packages. Each layer
works without the others, and none needs privileges: no_new_privs and the process limit (root is exempt from the
latter), Landlock (package `landlock`, Linux 5.13 or newer), seccomp (package `pyseccomp` and the system's libseccomp)
and the audit hook, which works on every system. `describe` says which layers a machine lacks, and why.

Limits: the audit hook stops the first step of hostile Python code, but code that already runs could disable it; that is
what the other layers are for. Whether a file exists can be asked anywhere. A verifier worker can use up memory and time
within its limits.

Ordering: the fork server calls `prepare` once, while it has one thread and before it sets signal handlers. Each
verifier worker calls `enter` once, when its socket is made, its other files are closed and its limits are set. No layer
can be removed again. The audit hook comes last, because it refuses the calls that apply the others.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import resource
import select
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .audit_hook import WRITING, AuditHook
from .limits import PR_SET_PDEATHSIG, prctl

PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
SECCOMP_MODE_FILTER = 2
BPF_INSTRUCTION_BYTES = 8
UNKNOWN_CALL = -1
"""libseccomp's number for a system call that it does not know."""

TRIAL_DEADLINE_S = 30.0
"""A trial takes a few milliseconds; a busy machine must not cost a layer."""

UNAVAILABLE = (ImportError, RuntimeError, OSError, ValueError, AttributeError)
"""What optional packages raise on systems that they do not support."""

REFUSED_CALLS = """
socket socketpair connect bind listen accept accept4 sendmsg sendmmsg recvmsg recvmmsg
fork vfork clone execve execveat
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp
setrlimit setpriority sched_setscheduler sched_setparam sched_setattr ioprio_set setsid setpgid
creat unlink unlinkat rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat mknod mknodat
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat truncate ftruncate fallocate
utime utimes utimensat futimesat setxattr lsetxattr fsetxattr setxattrat
removexattr lremovexattr fremovexattr removexattrat open_by_handle_at
mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
bpf perf_event_open keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter io_uring_register
unshare setns fanotify_init inotify_init inotify_init1 memfd_create memfd_secret personality
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl syslog
settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm
shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink
"""
ABSENT_CALLS = ("clone3", "openat2")
"""A filter cannot read their arguments, which lie in memory; told that they do not exist, libraries use older calls."""


@dataclass(frozen=True)
class Condition:
    """Refuse a system call when the bits of one argument under the mask have this value."""

    call: str
    argument: int
    mask: int
    value: int


LOW_BITS = 0xFFFFFFFF
REFUSED_CONDITIONS = (
    *(Condition("open", 1, mask, value) for mask, value in WRITING),
    *(Condition("openat", 2, mask, value) for mask, value in WRITING),
    # A worker must not cancel that it ends with its parent.
    Condition("prctl", 0, LOW_BITS, PR_SET_PDEATHSIG),
    # F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN and SIOCSPGRP make the kernel signal any process in a file's name;
    # TIOCSTI types into a terminal.
    *(Condition("fcntl", 1, LOW_BITS, command) for command in (8, 10, 15)),
    *(Condition("ioctl", 1, LOW_BITS, request) for request in (0x8901, 0x8902, 0x5412)),
)
REFUSED_UNLESS_NULL = {"sendto": 4, "prlimit64": 2}
"""Calls that a verifier worker needs, but without this argument (an address, a new limit)."""


@dataclass(frozen=True)
class Layer:
    """A restriction that cannot be removed once applied; `trial` raises OSError where it works."""

    name: str
    apply: Callable[[], object]
    trial: Callable[[], object]


@dataclass(frozen=True)
class Sandbox:
    """The layers that work here, in the order in which they are applied, and why the others do not."""

    layers: tuple[Layer, ...]
    missing: dict[str, str]
    hook: AuditHook

    def enter(self) -> None:
        """Restrict this process for good; raises OSError when a layer that worked in the trial fails."""
        # From here on imports must neither look into folders that are closed nor write bytecode: the hook would blame
        # the text that is being scored.
        sys.path[:] = [path for path in sys.path if self.hook.may_read(path)]
        sys.dont_write_bytecode = True
        for layer in self.layers:
            layer.apply()

    def take_refusal(self) -> str | None:
        """Return the first audit event that was refused since the last call, or None."""
        refused, self.hook.refused = self.hook.refused, None
        return refused

    def describe(self) -> str:
        """Return one line for the log."""
        line = f"verifier workers are sandboxed by {', '.join(layer.name for layer in self.layers) or 'nothing'}"
        if self.missing:
            line += "; not by " + ", ".join(f"{name} ({reason})" for name, reason in self.missing.items())
        return line


def code_paths() -> list[str]:
    """Return the paths that imports read: Python's, packages', shared libraries' and ours."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, "/usr", "/usr/local", "/"}
    folders = [os.path.join(prefix, name) for prefix in sorted(prefixes) for name in ("lib", "lib64")]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return [
        *folders,
        "/usr/share/zoneinfo",
        "/etc/ld.so.cache",
        os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    ]


def prepare(read_folders: Sequence[str]) -> Sandbox:
    """Try each layer in a child process and keep those that work there.

    A verifier worker may read below `read_folders` (folders or single files); those that do not exist are left out.
    """
    read_paths = [os.path.abspath(path) for path in read_folders if os.path.exists(path)]
    real_paths = sorted({os.path.realpath(path) for path in read_paths})
    hook = AuditHook([*read_paths, *real_paths])
    builders: dict[str, Callable[[], Layer]] = {
        "no_new_privs": _no_new_privs,
        "process limit": _process_limit,
        "Landlock": lambda: _landlock(real_paths),
        "seccomp": _seccomp,
        "audit hook": lambda: Layer("audit hook", hook.install, lambda: eval("0")),
    }
    layers: list[Layer] = []
    missing: dict[str, str] = {}
    for name, build in builders.items():
        try:
            layers.append(build())
        except UNAVAILABLE as error:
            missing[name] = _reason(error)
    while len(faults := _try_in_child(layers)) < len(layers):
        missing[layers.pop(len(faults)).name] = "its trial did not end"
    missing |= {name: reason for name, reason in faults.items() if reason}
    return Sandbox(tuple(layer for layer in layers if layer.name not in missing), missing, hook)


def no_sandbox() -> Sandbox:
    """Return a sandbox of no layers, for a library whose verifiers need what the layers refuse."""
    return Sandbox((), {"any layer": "sandbox_verifiers is off"}, AuditHook(()))


def _reason(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def _no_new_privs() -> Layer:
    def trial() -> None:
        if prctl(PR_GET_NO_NEW_PRIVS) == 1:
            raise PermissionError

    _require_linux()
    return Layer("no_new_privs", lambda: prctl(PR_SET_NO_NEW_PRIVS, 1), trial)


def _process_limit() -> Layer:
    def trial() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return Layer("process limit", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)), trial)


def _landlock(read_paths: Sequence[str]) -> Layer:
    _require_linux()
    landlock = importlib.import_module("landlock")
    landlock.landlock_abi_version()  # raises, with the reason, where the kernel has no Landlock
    folders = [path for path in read_paths if os.path.isdir(path)]
    files = [path for path in read_paths if not os.path.isdir(path)]
    access = landlock.FSAccess
    every, read_file, read_folder = access.all(), access.READ_FILE, access.READ_FILE | access.READ_DIR

    def apply() -> None:
        ctypes.set_errno(0)  # the package takes an earlier call's error for its own
        ruleset = landlock.Ruleset(restrict_rules=every)
        ruleset.allow(*folders, rules=read_folder)
        ruleset.allow(*files, rules=read_file)
        ruleset.apply()

    return Layer("Landlock", apply, lambda: os.listdir("/"))


class _FilterProgram(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _seccomp() -> Layer:
    """Compile the filter once; applying it is then a single system call."""
    _require_linux()
    code = _compile_filter(importlib.import_module("pyseccomp"))

    def apply() -> None:
        program = _FilterProgram(len(code) // BPF_INSTRUCTION_BYTES, code)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program))

    return Layer("seccomp", apply, lambda: socket.socket(socket.AF_UNIX).close())


def _compile_filter(seccomp: Any) -> bytes:
    calls = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)

    def add(action: int, name: str, *conditions: Any) -> None:
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number != UNKNOWN_CALL:
            calls.add_rule(action, number, *conditions)

    for name in REFUSED_CALLS.split():
        add(refuse, name)
    for name in ABSENT_CALLS:
        add(seccomp.ERRNO(errno.ENOSYS), name)
    for rule in REFUSED_CONDITIONS:
        add(refuse, rule.call, seccomp.Arg(rule.argument, seccomp.MASKED_EQ, rule.mask, rule.value))
    for name, argument in REFUSED_UNLESS_NULL.items():
        add(refuse, name, seccomp.Arg(argument, seccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        calls.export_bpf(file)
        file.seek(0)
        return file.read()


def _require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise OSError(f"there is none on {sys.platform}")


def _try_in_child(layers: Sequence[Layer]) -> dict[str, str]:
    """Apply layers one after the other in one child; return why each does not work, or "" where it does.

    Layers that the child did not reach, and one that it did not return from, are missing at the end.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for layer in layers:
                os.write(write_end, f"{layer.name}\t{_try(layer)}\n".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    deadline = time.monotonic() + TRIAL_DEADLINE_S
    report = b""
    while select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(read_end, 4096)
        if not data:
            break
        report += data
    os.close(read_end)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return dict(line.split("\t") for line in report.decode().splitlines())


def _try(layer: Layer) -> str:
    try:
        layer.apply()
    except UNAVAILABLE as error:
        return _reason(error)
    try:
        layer.trial()
    except OSError:
        return ""
    return "it refuses this user nothing"
