"""Restrict worker processes: limits for all, Landlock and seccomp for those that read model text.

Runs in the fork server and its workers only. The first defence is the guards in front of the verifiers, which keep
model text away from `eval` and similar functions. The sandbox is the second. Code that runs in a verifier worker all
the same cannot write a file, read a file outside the interpreter and its packages, open a socket, start a process,
signal another process, move another process to another core, or lock a file. No layer needs privileges.

- Limits, for every worker: memory, size of files, open files, processor priority. A worker ends with the fork server.
- Process limit: no child processes; root is exempt.
- no_new_privs: started programs get no privileges.
- Landlock (Linux 5.13 or newer): only files that imports read.
- seccomp (package `pyseccomp`, the system's libseccomp): no system calls that write, connect, fork or signal.

Where the system refuses a layer, the others are applied all the same, and `Restrictions` says why the layer is missing.

The sandbox does not protect against:

- Missing layers. On macOS, and where Landlock and seccomp are missing, only the limits hold. Code that runs could then
  read and write the user's files, connect to any address and signal other processes. There the guards stand alone.
- False scores. Code that runs could give any answer in its own worker any score from 0 to 1, until the worker is
  replaced. The main process checks the form of replies, not their truth.
- Reading the files that imports read (Python's folders, packages, shared libraries), asking whether a file exists, and
  using memory and time up to the limits.
- Faults of the kernel.

Order: the fork server calls `prepare` once. A worker calls `enter_worker` straight after the fork. A verifier worker
then makes its socket, calls `Sandbox.enter` and tells the main process what holds, before it reads any request. No
layer can be removed again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import resource
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Prctl(IntEnum):
    """Options of Linux's prctl, from <linux/prctl.h>."""

    SET_PDEATHSIG = 1
    SET_SECCOMP = 22
    SET_NO_NEW_PRIVS = 38


class Landlock(IntEnum):
    """Landlock's system calls, by the numbers that nearly every architecture gives them, from <linux/unistd.h>."""

    CREATE_RULESET = 444
    ADD_RULE = 445
    RESTRICT_SELF = 446


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of a worker: address space, in megabytes; niceness, from 0 to 19."""

    memory_mb: int
    niceness: int


MAX_FILE_MB = 16
"""Size of the largest file that a worker can write, in megabytes."""


def enter_worker(directory: str, limits: WorkerLimits, keep_fd: int) -> None:
    """Give a freshly forked process its own session, folder and limits; close all files except `keep_fd`."""
    os.setsid()
    _die_with_parent()
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    _close_files(keep_fd)
    with contextlib.suppress(OSError):
        os.nice(limits.niceness)
    set_group_priority(limits.niceness)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, 64)
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_MB * 2**20)
    _lower(resource.RLIMIT_AS, limits.memory_mb * 2**20)
    # A write over the file limit then raises OSError in the verifier instead of killing the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _prctl(option: Prctl, *values: int) -> int:
    """Call Linux's prctl. Raises OSError."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return _checked(_libc().prctl(ctypes.c_int(option), *arguments))


def _landlock_call(call: Landlock, *arguments: object) -> int:
    """Make a system call of Landlock, whose arguments are ctypes' own objects. Raises OSError."""
    return _checked(_libc().syscall(ctypes.c_long(call), *arguments))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def set_group_priority(niceness: int) -> None:
    """Set the niceness of this process' scheduling group; wait while the kernel asks to try again, at most a second.

    If the kernel groups processes by session (Linux with autogroups), a process' own niceness counts only inside its
    group. From all processes without privileges together, the kernel takes one change in 100 ms.

    Without this call a niceness has no effect between groups. Beside two busy processes, in six pairs of runs, the
    99th percentile of the event loop's delays was 20 to 43 ms with this call and 36 to 92 ms without, and lower with
    this call in each pair; the workers yield for that: 17 to 62 groups a second instead of 36 to 57
    (`benchmarks.busy --busy 2 --niceness 5`). One group for all workers needs one change only, but starves them: 13 to
    33 groups a second where a group for each makes 37 to 39.
    """
    for _ in range(10):
        try:
            with open("/proc/self/autogroup", "w") as autogroup:
                autogroup.write(str(niceness))
            return
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # no autogroups here
            return


def _die_with_parent() -> None:
    """Have Linux kill this process when the fork server ends, even a busy process that reads no socket."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            _prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)


def _close_files(keep_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # More descriptors than the fork server ever has, and few enough to close one by one.
    highest = 4096 if highest == resource.RLIM_INFINITY else min(highest, 4096)
    os.closerange(3, keep_fd)
    os.closerange(keep_fd + 1, highest)


def _lower(limit: int, value: int) -> None:
    """Set a limit for good. A lower limit stays; a system without this limit is left alone."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(limit, (value, value))


# ------------------------------------------------------------------ what a verifier worker is denied

DENIED_CALLS = """
socket socketpair connect bind listen accept accept4 sendmsg sendmmsg recvmsg recvmmsg
fork vfork clone execve execveat
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp
setrlimit setpriority sched_setscheduler sched_setparam sched_setattr sched_setaffinity ioprio_set setsid setpgid
migrate_pages move_pages flock sync syncfs
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


@dataclass(frozen=True)
class Condition:
    """Deny a system call if the masked bits of one argument have this value.

    The default mask is the lower 32 bits: the kernel reads only these of a command's number.
    """

    call: str
    argument: int
    value: int
    mask: int = 0xFFFFFFFF


def denied_conditions() -> list[Condition]:
    """Return the conditions under which calls that a verifier worker needs are denied."""
    # Flags with which opening a file changes something, and their masks.
    writing = (
        (os.O_WRONLY, os.O_ACCMODE),
        (os.O_RDWR, os.O_ACCMODE),
        (os.O_ACCMODE, os.O_ACCMODE),
        (os.O_CREAT, os.O_CREAT),
        (os.O_TRUNC, os.O_TRUNC),
    )
    return [
        *(Condition("open", 1, value, mask) for value, mask in writing),
        *(Condition("openat", 2, value, mask) for value, mask in writing),
        # A worker must end with its parent, so it must not reset the signal of its parent's death.
        Condition("prctl", 0, Prctl.SET_PDEATHSIG),
        # F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN and SIOCSPGRP make the kernel signal any process in a file's name;
        # TIOCSTI types into a terminal. F_SETLEASE, F_SETLK, F_SETLKW, F_OFD_SETLK and F_OFD_SETLKW make other
        # processes wait for a file, such as a file of a package; F_NOTIFY watches a folder.
        *(Condition("fcntl", 1, command) for command in (8, 10, 15, 1024, 6, 7, 37, 38, 1026)),
        *(Condition("ioctl", 1, request) for request in (0x8901, 0x8902, 0x5412)),
    ]


@dataclass(frozen=True)
class Restrictions:
    """The layers that restrict a process, in order of application, and why others do not, by name."""

    layers: Sequence[str]
    missing: Mapping[str, str]

    @property
    def lacks_a_filter(self) -> bool:
        """True if the system refuses Landlock or seccomp. Other layers are missing by choice, or add little."""
        return "Landlock" in self.missing or "seccomp" in self.missing

    def describe(self) -> str:
        """Return one line for the log."""
        line = f"verifier workers are sandboxed by {', '.join(self.layers) or 'nothing'}"
        if self.missing:
            line += "; not by " + ", ".join(f"{name} ({reason})" for name, reason in self.missing.items())
        return line


@dataclass(frozen=True)
class Sandbox:
    """The layers to apply to a verifier worker, in order of application, and why others cannot be made."""

    layers: Mapping[str, Callable[[], object]]
    missing: Mapping[str, str]

    def enter(self) -> Restrictions:
        """Apply each layer to this process for good. A layer that the system refuses does not keep the others away."""
        applied: list[str] = []
        missing = dict(self.missing)
        for name, apply in self.layers.items():
            try:
                apply()
            except UNAVAILABLE as error:
                missing[name] = _reason(error)
            else:
                applied.append(name)
        return Restrictions(applied, missing)


UNAVAILABLE = (ImportError, RuntimeError, OSError, ValueError, AttributeError)
"""What the system, and optional packages on systems that they do not support, raise for a layer."""


def prepare(read_paths: Sequence[str], *, threads: bool = False) -> Sandbox:
    """Prepare the layers, so that slow work is done once; this process itself is not restricted.

    A verifier worker may read below `read_paths` (folders or single files). Paths that do not exist are left out. With
    `threads`, it may start threads; the process limit, which counts threads too, is then missing.
    """
    present = sorted({os.path.realpath(path) for path in read_paths if os.path.exists(path)})
    of_linux: dict[str, Callable[[], Callable[[], object]]] = {
        "no_new_privs": lambda: lambda: _prctl(Prctl.SET_NO_NEW_PRIVS, 1),
        "Landlock": lambda: _landlock(present),
        "seccomp": lambda: _seccomp(threads=threads),
    }
    layers: dict[str, Callable[[], object]] = {}
    missing: dict[str, str] = {}
    if os.geteuid() == 0:
        missing["process limit"] = "root is exempt from it"
    elif threads:
        missing["process limit"] = "it would count threads"
    else:
        # First, since seccomp denies setting limits.
        layers["process limit"] = lambda: _lower(resource.RLIMIT_NPROC, 0)
    for name, make in of_linux.items():
        try:
            _require_linux()
            layers[name] = make()
        except UNAVAILABLE as error:
            missing[name] = _reason(error)
    return Sandbox(layers, missing)


def no_sandbox() -> Sandbox:
    """Return a sandbox of no layers, for a library whose verifiers need what the layers deny."""
    return Sandbox({}, {"any layer": "sandbox_verifiers is off"})


def code_paths() -> list[str]:
    """Return the paths that imports read: of Python, packages, shared libraries and this package."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, "/usr", "/usr/local", "/"}
    folders = [os.path.join(prefix, name) for prefix in sorted(prefixes) for name in ("lib", "lib64")]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [*folders, "/usr/share/zoneinfo", "/etc/ld.so.cache", package]


def _reason(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def _require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise OSError(f"there is none on {sys.platform}")


READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
"""Landlock's bits for the reading of a file and of a folder's list, from <linux/landlock.h>."""
LANDLOCK_ACCESS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""The actions on files that each version of Landlock's interface added, as bits: executing, reading, writing, making
and removing; moving to another folder; truncating; commands to devices. A kernel refuses bits that it does not know."""


class _RulesetAttributes(ctypes.Structure):
    """The first member of the kernel's `struct landlock_ruleset_attr`; the kernel takes missing members as 0."""

    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    """The kernel's `struct landlock_path_beneath_attr`, which is packed: the kernel does not read the padding here."""

    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _landlock(read_paths: Sequence[str]) -> Callable[[], object]:
    """Return a function that denies this process all actions on files but reading below some paths."""
    denied = landlock_access(_landlock_version())
    readable = {path: READ_FILE | READ_FOLDER if os.path.isdir(path) else READ_FILE for path in read_paths}
    no_flags = ctypes.c_uint32(0)

    def apply() -> None:
        attributes = _RulesetAttributes(denied)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        ruleset = _landlock_call(Landlock.CREATE_RULESET, ctypes.byref(attributes), size, no_flags)
        try:
            for path, access in readable.items():
                _allow(ruleset, path, access)
            _landlock_call(Landlock.RESTRICT_SELF, ctypes.c_int(ruleset), no_flags)
        finally:
            os.close(ruleset)

    return apply


def _landlock_version() -> int:
    """Return the version of the kernel's Landlock, from 1. Raises OSError if the kernel has none."""
    ask_for_version = ctypes.c_uint32(1)
    try:
        return _landlock_call(Landlock.CREATE_RULESET, None, ctypes.c_size_t(0), ask_for_version)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise OSError(errno.ENOSYS, "this kernel has none") from error
        if error.errno == errno.EOPNOTSUPP:
            raise OSError(errno.EOPNOTSUPP, "it was not switched on when the kernel started") from error
        raise


def landlock_access(version: int) -> int:
    """Return the bits of all actions on files that a version of Landlock's interface can deny."""
    return sum(bits for since, bits in LANDLOCK_ACCESS.items() if since <= version)


def _allow(ruleset: int, path: str, access: int) -> None:
    """Add to a ruleset that a file, or all files below a folder, may be accessed."""
    path_beneath = ctypes.c_int(1)  # the type of the rule
    descriptor = os.open(path, os.O_PATH)
    try:
        rule = _PathBeneath(access, descriptor)
        _landlock_call(Landlock.ADD_RULE, ctypes.c_int(ruleset), path_beneath, ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


class _FilterProgram(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


CLONE_THREAD = 0x10000
"""Flag of clone, from <linux/sched.h>: the new task is a thread of this process."""


def _seccomp(*, threads: bool) -> Callable[[], object]:
    """Compile the filter once. Applying it is then one system call."""
    code = _compile_filter(importlib.import_module("pyseccomp"), threads=threads)

    def apply() -> None:
        program = _FilterProgram(len(code) // 8, code)  # an instruction has 8 bytes
        mode_filter = 2  # <linux/seccomp.h>
        _prctl(Prctl.SET_SECCOMP, mode_filter, ctypes.addressof(program))

    return apply


def _compile_filter(seccomp: Any, *, threads: bool) -> bytes:
    calls = seccomp.SyscallFilter(seccomp.ALLOW)
    deny = seccomp.ERRNO(errno.EPERM)

    def add(action: int, name: str, *conditions: Any) -> None:
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number != -1:  # the system has this call
            calls.add_rule(action, number, *conditions)

    for name in DENIED_CALLS.split():
        if name == "clone" and threads:
            add(deny, name, seccomp.Arg(0, seccomp.MASKED_EQ, CLONE_THREAD, 0))
        else:
            add(deny, name)
    # A filter cannot read the arguments of these calls, which lie in memory. On ENOSYS, libraries use older calls.
    for name in ("clone3", "openat2"):
        add(seccomp.ERRNO(errno.ENOSYS), name)
    for rule in denied_conditions():
        add(deny, rule.call, seccomp.Arg(rule.argument, seccomp.MASKED_EQ, rule.mask, rule.value))
    # A verifier worker needs these calls, but without this argument (an address, a new limit).
    for name, argument in (("sendto", 4), ("prlimit64", 2)):
        add(deny, name, seccomp.Arg(argument, seccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        calls.export_bpf(file)
        file.seek(0)
        return file.read()
