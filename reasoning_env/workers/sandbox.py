"""Restrict worker processes: limits for all workers, and Landlock and seccomp for workers that read text of a model.

This module runs only in the fork server and its workers. The first defence is the guards in front of the verifiers,
which keep hostile text away from `eval` and similar functions. The sandbox is the second defence, in case hostile code
runs in a verifier worker. The code can read only the files of the interpreter and its packages. It cannot write or lock
files, open sockets, start processes, or signal or reprioritize other processes. The layers need no privileges:

- Limits, for every worker: memory, file size, open files and core dumps. Other processes of the user cannot read the
  worker's memory. The worker ends when the fork server ends, and has a lower processor priority (which is no defence).
- Process limit: no child processes. Root is exempt from this limit.
- no_new_privs: started programs get no further privileges.
- Landlock (Linux 5.13 or newer): a process can read only the files that Python needs for imports, and `read_paths`.
- seccomp: only the system calls that verifiers need. None of them writes files, connects, forks or signals.

The fork server first tries all layers in a separate process. A layer that the system refuses is missing for the whole
session, and `Restrictions` says why. A worker that cannot apply all remaining layers does not start, so all workers
have the same layers. The fork server opens the readable files once, at the start of the session, so later changes of
their paths have no effect. A fork server that replaces another must have the same layers, and must not make more files
readable.

The sandbox does not protect against:

- Missing layers. With neither Landlock nor seccomp, as on macOS, only the limits apply. Code could then read and write
  the user's files, connect to any address and signal other processes. Only the guards protect such systems.
- False scores. Hostile code could give any answer any score from 0 to 1 until its worker is replaced. The main process
  checks only the form of replies.
- Reading the readable files (Python, packages, shared libraries, `read_paths`), checking whether a file exists, and
  using memory and time up to the limits.
- Vulnerabilities of the kernel.

The fork server calls `prepare` once. Right after the fork, a worker calls `enter_worker`, then `Sandbox.enter`. Only
then does it report that it is ready, and read requests. No layer can be removed again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import stat
import struct
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class Prctl(IntEnum):
    """Options of Linux's prctl, from <linux/prctl.h>."""

    SET_PDEATHSIG = 1
    SET_DUMPABLE = 4
    SET_SECCOMP = 22
    SET_NO_NEW_PRIVS = 38


class Landlock(IntEnum):
    """Numbers of Landlock's system calls on nearly every architecture, from <linux/unistd.h>."""

    CREATE_RULESET = 444
    ADD_RULE = 445
    RESTRICT_SELF = 446


MOUNTS = Path("/proc/self/mounts")
MAX_FILE_MB = 16
"""Size of the largest file that a worker can write, in megabytes."""


@dataclass(frozen=True)
class Restrictions:
    """The sandbox of a session's workers, as JSON values.

    - `limits`: names of the layers that all workers have.
    - `layers`: names of the other layers, which only verifier workers have, in order of application.
    - `missing`: name of each layer that is missing, and why.
    - `readable`: device and inode number of each file and folder that verifier workers may read.
    """

    limits: Sequence[str]
    layers: Sequence[str]
    missing: Mapping[str, str]
    readable: Sequence[Sequence[int]] = ()

    def lost(self, now: Restrictions) -> str | None:
        """Return the first layer of `self` that is missing in `now`, and why; None if no layer is missing."""
        for name in (*self.limits, *self.layers):
            if name not in now.limits and name not in now.layers:
                return f"{name} ({now.missing.get(name, 'unknown')})"
        return None

    def explain(self, error: BaseException) -> str:
        """Return what the sandbox allows, to append to a verifier's error; "" if the sandbox is not the cause."""
        match error:
            case OSError(errno=errno.EACCES) if "Landlock" in self.layers:
                return (
                    "; a verifier can read only its module, Python's packages and --read paths, and cannot write files"
                )
            case OSError(errno=errno.EPERM | errno.ENOSYS) if "seccomp" in self.layers:
                return "; a verifier cannot start processes, open sockets or write files"
            case RuntimeError() if "seccomp" in self.layers and "start new thread" in str(error):
                return "; a verifier can start threads only with --threads"
        return ""


def enter_worker(directory: str, niceness: int, keep_fds: Collection[int]) -> None:
    """Give a forked process its own session, folder and priority, and close all files except `keep_fds`."""
    os.setsid()
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    _close_files(keep_fds)
    with contextlib.suppress(OSError):
        os.nice(niceness)
    set_group_priority(niceness)
    # Ignore the signal, so that a write beyond the file limit raises OSError and does not kill the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _prctl(option: Prctl, *values: int) -> int:
    """Call Linux's prctl. Raises OSError."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return _checked(_libc().prctl(ctypes.c_int(option), *arguments))


def _landlock_call(call: Landlock, *arguments: object) -> int:
    """Make a system call of Landlock. The arguments are objects of ctypes. Raises OSError."""
    return _checked(_libc().syscall(ctypes.c_long(call), *arguments))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def set_group_priority(niceness: int) -> None:
    """Set the niceness of this process's scheduling group. While the kernel returns EAGAIN, retry for up to a second.

    Without this call, workers slow down the event loop: with autogroups, the niceness of a process counts only among
    the processes of its session. The call halves the 99th percentile of the event loop's delays on a busy machine
    (`benchmarks.busy --busy 2 --niceness 5`).
    """
    for _ in range(10):
        try:
            with open("/proc/self/autogroup", "w") as autogroup:
                autogroup.write(str(niceness))
            return
        except BlockingIOError:  # all unprivileged processes together may change one group every 100 ms
            time.sleep(0.1)
        except OSError:  # this system has no autogroups
            return


def _die_with_parent(parent: int) -> None:
    """Make Linux kill this process when the fork server ends, even if the process is busy and reads no socket."""
    _prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the fork server has ended already
        os._exit(1)


def _close_files(keep_fds: Collection[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # The limit is above the fork server's number of descriptors, and low enough to close them one by one.
    highest = 4096 if highest == resource.RLIM_INFINITY else min(highest, 4096)
    first = 3
    for kept in sorted(keep_fds):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, highest)


def _lower(limit: int, value: int) -> None:
    """Set a resource limit permanently. Raises OSError if the system refuses the limit."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(limit, (value, value))
    except ValueError as error:  # Python raises ValueError instead of OSError for some system errors
        raise OSError(str(error)) from error


# ------------------------------------------------------------------ the layers


Layers = Mapping[str, Callable[[], object]]
"""Functions by layer name, in order of application. Each restricts this process permanently or raises OSError."""


@dataclass(frozen=True)
class Sandbox:
    """The sandbox's layers for the workers of a session, and the file descriptors that these layers need."""

    limits: Layers
    layers: Layers
    restrictions: Restrictions
    descriptors: Collection[int] = ()

    def enter(self, *, is_verifier: bool) -> None:
        """Apply `limits` to this process permanently. In a verifier worker, apply `layers` too.

        Raises OSError with the name of the first layer that cannot be applied. The process must then end.
        """
        layers = {**self.limits, **self.layers} if is_verifier else self.limits
        for name, apply in layers.items():
            try:
                apply()
            except OSError as error:
                raise OSError(f"{name}: {_reason(error)}") from error
        for descriptor in self.descriptors if is_verifier else ():
            os.close(descriptor)


def prepare(
    memory_mb: int,
    read_paths: Sequence[str],
    *,
    threads: bool = False,
    filtered: bool = True,
    at_start: Restrictions | None = None,
) -> Sandbox:
    """Prepare the layers of the sandbox and try them in a child process. This process itself is not restricted.

    Args:
        memory_mb: Address space of every worker, in megabytes.
        read_paths: Files and folders that verifier workers may read. Those that cannot be opened are left out.
        threads: True lets verifier workers start threads, and leaves out the process limit, which also counts threads.
        filtered: False applies only the limits, for a library whose verifiers need what the other layers forbid.
        at_start: None for the session's first workers. For later workers, the restrictions of the first workers: any
            file that the first workers could not read is left out of `read_paths`.

    Raises OSError if the layers cannot be tried.
    """
    missing: dict[str, str] = {}
    layers: dict[str, Callable[[], object]] = {}
    opened: dict[tuple[int, int], int] = {}
    descriptors: list[int] = []
    if not filtered:
        missing["any layer"] = "sandbox_verifiers is off"
    elif os.geteuid() == 0:
        missing["process limit"] = "this limit does not apply to root"
    elif threads:
        missing["process limit"] = "this limit would also apply to threads"
    else:
        # This layer comes first, because seccomp denies setting limits.
        layers["process limit"] = lambda: _lower(resource.RLIMIT_NPROC, 0)
    if filtered:
        opened = _open(
            read_paths, None if at_start is None else {(device, inode) for device, inode in at_start.readable}
        )
        of_linux: dict[str, Callable[[], Callable[[], object]]] = {
            "no_new_privs": lambda: lambda: _prctl(Prctl.SET_NO_NEW_PRIVS, 1),
            "Landlock": lambda: _landlock(opened.values(), descriptors),
            "seccomp": lambda: _seccomp(threads=threads),
        }
        for name, make in of_linux.items():
            try:
                _require_linux()
                layers[name] = make()
            except OSError as error:
                missing[name] = _reason(error)
    for descriptor in opened.values():
        os.close(descriptor)
    of_all = _limits(memory_mb)
    if MOUNTS.exists() and b"hidepid=" in MOUNTS.read_bytes():
        missing["private memory"] = (
            "/proc is mounted with hidepid, so this layer would hide workers from the main process"
        )
    missing |= _try({**of_all, **layers})
    of_all = {name: apply for name, apply in of_all.items() if name not in missing}
    layers = {name: apply for name, apply in layers.items() if name not in missing}
    restrictions = Restrictions(list(of_all), list(layers), missing, list(opened))
    return Sandbox(of_all, layers, restrictions, descriptors)


def _limits(memory_mb: int) -> Layers:
    """Return the limits, which all workers have."""
    found: dict[str, Callable[[], object]] = {
        # If core dumps go to a program, Linux ignores a limit of 0, but not of 1. For a socket it ignores both.
        "no core dumps": lambda: _lower(resource.RLIMIT_CORE, 1),
        "limit of open files": lambda: _lower(resource.RLIMIT_NOFILE, 64),
        "file size limit": lambda: _lower(resource.RLIMIT_FSIZE, MAX_FILE_MB * 2**20),
        "memory limit": lambda: _lower(resource.RLIMIT_AS, memory_mb * 2**20),
    }
    if sys.platform.startswith("linux"):
        parent = os.getpid()
        found["SIGKILL when the fork server ends"] = lambda: _die_with_parent(parent)
        found["private memory"] = lambda: _prctl(Prctl.SET_DUMPABLE, 0)
    return found


def _try(layers: Layers) -> dict[str, str]:
    """Apply layers in a child process, which then ends. Return the error of each layer that failed. Raises OSError."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            failed = {}
            for name, apply in layers.items():
                try:
                    apply()
                except OSError as error:
                    failed[name] = _reason(error)
            os.write(writing, json.dumps(failed).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as report:
        text = report.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        raise OSError(f"the process that tested the sandbox ended with status {os.waitstatus_to_exitcode(status)}")
    return dict(json.loads(text))


def code_paths() -> list[str]:
    """Return the paths that Python needs for imports: Python, packages, shared libraries and this package."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, "/usr", "/usr/local", "/"}
    folders = [os.path.join(prefix, name) for prefix in sorted(prefixes) for name in ("lib", "lib64")]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [*folders, "/usr/share/zoneinfo", "/etc/ld.so.cache", package]


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise OSError(f"not available on {sys.platform}")


# ------------------------------------------------------------------ Landlock: which files a verifier worker reads

READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
"""Landlock's bits for reading a file and for listing a folder, from <linux/landlock.h>."""
LANDLOCK_ACCESS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""The file actions that each version of Landlock's interface added, as bits. A kernel rejects unknown bits."""


class _RulesetAttributes(ctypes.Structure):
    """The first member of the kernel's `struct landlock_ruleset_attr`. The kernel sets missing members to 0."""

    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    """The kernel's `struct landlock_path_beneath_attr`, followed by padding, which the kernel does not read."""

    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _open(paths: Sequence[str], only: Collection[tuple[int, int]] | None) -> dict[tuple[int, int], int]:
    """Open `paths`, and return file descriptors by device and inode number. On systems other than Linux, return {}.

    Leave out paths that cannot be opened and, if `only` is given, files that are not in `only`.
    """
    opened: dict[tuple[int, int], int] = {}
    for path in paths if sys.platform.startswith("linux") else ():
        try:
            descriptor = os.open(path, os.O_PATH)
        except OSError:
            continue
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity in opened or (only is not None and identity not in only):
            os.close(descriptor)
        else:
            opened[identity] = descriptor
    return opened


def _landlock(opened: Collection[int], descriptors: list[int]) -> Callable[[], object]:
    """Return a function that limits the process that calls it to reading the files and folders in `opened`.

    All workers use one ruleset. Its descriptor is added to `descriptors`.
    """
    attributes = _RulesetAttributes(landlock_access(_landlock_version()))
    no_flags = ctypes.c_uint32(0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    made = _landlock_call(Landlock.CREATE_RULESET, ctypes.byref(attributes), size, no_flags)
    # Use a descriptor from 16 on, because a worker's socket gets the first free number.
    ruleset = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 16)
    os.close(made)
    descriptors.append(ruleset)
    for descriptor in opened:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        _allow(ruleset, descriptor, READ_FILE | READ_FOLDER if is_folder else READ_FILE)
    return lambda: _landlock_call(Landlock.RESTRICT_SELF, ctypes.c_int(ruleset), no_flags)


def _landlock_version() -> int:
    """Return the version of the kernel's Landlock, at least 1. Raises OSError if the kernel has no Landlock."""
    ask_for_version = ctypes.c_uint32(1)
    try:
        return _landlock_call(Landlock.CREATE_RULESET, None, ctypes.c_size_t(0), ask_for_version)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise OSError(errno.ENOSYS, "not supported by this kernel") from error
        if error.errno == errno.EOPNOTSUPP:
            raise OSError(errno.EOPNOTSUPP, "not enabled when the kernel started") from error
        raise


def landlock_access(version: int) -> int:
    """Return the bits of all file actions that a version of Landlock's interface can deny."""
    return sum(bits for since, bits in LANDLOCK_ACCESS.items() if since <= version)


def _allow(ruleset: int, descriptor: int, access: int) -> None:
    """Add a rule that permits `access` to an open file, or to everything below an open folder."""
    path_beneath = ctypes.c_int(1)  # the type of the rule
    rule = _PathBeneath(access, descriptor)
    _landlock_call(Landlock.ADD_RULE, ctypes.c_int(ruleset), path_beneath, ctypes.byref(rule), ctypes.c_uint32(0))


# ------------------------------------------------------------------ seccomp: which system calls a verifier worker makes

ALLOWED_CALLS = """
read 0 63            readv 19 65          pread64 17 67        write 1 64           writev 20 66
lseek 8 62           close 3 57           dup 32 23            dup2 33 -            dup3 292 24
fcntl 72 25          ioctl 16 29          fstat 5 80           recvfrom 45 207      sendto 44 206
open 2 -             openat 257 56        stat 4 -             lstat 6 -            newfstatat 262 79
statx 332 291        access 21 -          faccessat 269 48     readlink 89 -        readlinkat 267 78
getdents64 217 61    getcwd 79 17         chdir 80 49

brk 12 214           mmap 9 222           munmap 11 215        mprotect 10 226      mremap 25 216
madvise 28 233       mbind 237 235

clock_gettime 228 113    clock_getres 229 114    gettimeofday 96 169    time 201 -          times 100 153
getrusage 98 165         nanosleep 35 101        clock_nanosleep 230 115
poll 7 -                 ppoll 271 73            select 23 -            pselect6 270 72     futex 202 98
epoll_create1 291 20     epoll_ctl 233 21        epoll_wait 232 -       epoll_pwait 281 22  eventfd2 290 19
rt_sigaction 13 134      rt_sigprocmask 14 135   rt_sigreturn 15 139    sigaltstack 131 132
restart_syscall 219 128  alarm 37 -              getitimer 36 102       setitimer 38 103

getpid 39 172        getppid 110 173      gettid 186 178       getpgrp 111 -        getuid 102 174
geteuid 107 175      getgid 104 176       getegid 108 177      getgroups 115 158    getrandom 318 278
uname 63 160         sysinfo 99 179       getcpu 309 168       getrlimit 97 163     prlimit64 302 261
prctl 157 167        sched_getaffinity 204 123                 sched_yield 24 124
exit 60 93           exit_group 231 94    clone 56 220         set_robust_list 273 99    rseq 334 293
"""
"""All system calls that a verifier worker may make: name, number on x86_64, number on aarch64 (- if there is none).

Verifiers, numpy, sympy, scipy, and score functions that use threads, make these calls on Python 3.11 to 3.13, or would
make them with another C library. In traces of all tasks, of RLVE's 400 environments and of two dozen libraries, the
filter refused only calls that write files or open sockets, calls that start threads (if `threads` is False), clone3
(libraries then use clone) and libselinux's statfs. Reasons for some entries:

- recvfrom, sendto: Python's sockets use these calls. The worker's only socket is connected to the main process.
- mbind: OpenBLAS uses it for its own buffers.
- epoll, eventfd2: threads of Rust libraries such as polars use these calls to wait.
- alarm, setitimer: score functions and math-verify use these calls for time limits. They affect only the caller.
- rseq, set_robust_list: the C library uses these calls for new threads, and ends the process if rseq is refused.
- chdir: score functions use it to open files in their own folder (`--read`). The call makes no other file readable.
"""

TABLES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
"""For each processor architecture: its number in <linux/audit.h>, and its column in ALLOWED_CALLS."""

FIRST_COMMON_NUMBER = 424
"""System calls from this number on have the same number on all architectures. The filter refuses these calls. They are
newer than Linux 5.0, so libraries work without them."""


@dataclass(frozen=True)
class Check:
    """Allow a system call only if its argument at index `argument`, masked with `mask`, is one of `values`.

    This compares the lower 32 bits of the argument, or the higher 32 bits if `high` is True. For flags and command
    numbers, comparing the lower bits is enough, because the kernel ignores the higher bits.
    """

    argument: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF
    high: bool = False


def _is_null(argument: int) -> list[Check]:
    return [Check(argument, [0]), Check(argument, [0], high=True)]


WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
"""Flags of `open` for writing, creating or truncating a file."""
CLONE_THREAD = 0x10000
"""Flag with which `clone` starts a thread of this process, from <linux/sched.h>."""
CLONE_NAMESPACES = 0x7E020000
"""All flags of clone that create a namespace, from <linux/sched.h>."""

MAP_LOCKED, MAP_HUGETLB = 0x2000, 0x40000
"""Flags of mmap, from <linux/mman.h>."""

CHECKS: Mapping[str, Sequence[Check]] = {
    "open": [Check(1, [0], WRITING)],
    "openat": [Check(2, [0], WRITING)],
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. Other commands can signal processes and lock files.
    "fcntl": [Check(1, [0, 1, 2, 3, 4, 1030])],
    # TCGETS and TCGETS2 (every `open` checks for a terminal), TIOCGWINSZ (for the width of tables), FIONREAD, FIONBIO,
    # FIONCLEX, FIOCLEX. Other commands can change network interfaces and flags of files, and type into terminals.
    "ioctl": [Check(1, [0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451])],
    # PR_SET_NAME and PR_GET_NAME, for names of threads. Another option would let the worker outlive the fork server.
    "prctl": [Check(0, [15, 16])],
    # No flags that move shared pages of other processes, lock pages, or take the machine's huge pages.
    "mbind": [Check(5, [0])],
    "mmap": [Check(3, [0], MAP_LOCKED | MAP_HUGETLB)],
    # Advice on future use, MADV_FREE, huge pages, core dumps, populating, guards. Other advice can disable pages of the
    # machine, or merge pages with those of other processes.
    "madvise": [Check(2, [0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 22, 23, 102, 103])],
    # Python's sockets use no flags. Flags, such as for out-of-band data, run rarely used code of the kernel.
    "sendto": [Check(3, [0]), *_is_null(4)],  # without a destination address
    "recvfrom": [Check(3, [0])],
    "prlimit64": _is_null(2),  # reads limits, but sets none
    "clone": [Check(0, [CLONE_THREAD], CLONE_THREAD | CLONE_NAMESPACES)],
}
"""Allowed arguments of system calls. A call with several checks must pass all of them."""


class Op(IntEnum):
    """Instructions of packet filters, from <linux/bpf_common.h>. LOAD takes an offset in `struct seccomp_data`."""

    LOAD = 0x20
    AND = 0x54
    IF_EQUAL = 0x15
    IF_AT_LEAST = 0x35
    RETURN = 0x06


ALLOW = 0x7FFF0000
REFUSE = 0x00050000
"""The filter's result for a refused call. The error number is added in the lower bits. From <linux/seccomp.h>."""


def _step(op: Op, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a filter instruction. A condition skips as many instructions as `if_true` or `if_false` says."""
    return struct.pack("=HBBI", op, if_true, if_false, operand)


def allowed_numbers(column: int, *, threads: bool) -> dict[str, int]:
    """Return the numbers of the allowed system calls, by name, from a column of ALLOWED_CALLS."""
    words = iter(ALLOWED_CALLS.split())
    rows = zip(words, words, words, strict=True)
    return {row[0]: int(row[column]) for row in rows if row[column] != "-" and (threads or row[0] != "clone")}


def compile_filter(machine: str, *, threads: bool) -> bytes:
    """Return the program that the kernel runs at each system call. `machine` is a key of TABLES.

    Refused calls return EPERM. Two kinds return ENOSYS, so that libraries use older calls: numbers from
    FIRST_COMMON_NUMBER on, and calls of the machine's other interfaces, such as 32-bit calls.
    """
    audit_number, column = TABLES[machine]
    number_at, interface_at, arguments_at = 0, 4, 16  # offsets in `seccomp_data`
    refuse, unknown = (_step(Op.RETURN, REFUSE | code) for code in (errno.EPERM, errno.ENOSYS))
    steps = [
        _step(Op.LOAD, interface_at),
        _step(Op.IF_EQUAL, audit_number, if_true=1),
        unknown,
        _step(Op.LOAD, number_at),
    ]
    for name, number in allowed_numbers(column, threads=threads).items():
        body = []
        for check in CHECKS.get(name, ()):
            body.append(_step(Op.LOAD, arguments_at + 8 * check.argument + 4 * check.high))
            body.append(_step(Op.AND, check.mask))
            # A match skips the comparisons that are left, and the step that refuses the call.
            for left in range(len(check.values), 0, -1):
                body.append(_step(Op.IF_EQUAL, check.values[-left], if_true=left))
            body.append(refuse)
        body.append(_step(Op.RETURN, ALLOW))
        steps += [_step(Op.IF_EQUAL, number, if_false=len(body)), *body]
    # Numbers of the x32 interface have bit 30 set, so none of them is an allowed number.
    steps += [_step(Op.IF_AT_LEAST, FIRST_COMMON_NUMBER, if_false=1), unknown, refuse]
    return b"".join(steps)


class _FilterProgram(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _seccomp(*, threads: bool) -> Callable[[], object]:
    """Return a function that applies the filter of system calls. Raises OSError if TABLES lacks the architecture."""
    machine = os.uname().machine
    if machine not in TABLES:
        raise OSError(f"there is no table of system calls for {machine}")
    if sys.maxsize < 2**32:
        raise OSError("there is no table of system calls for 32-bit Python")
    code = compile_filter(machine, threads=threads)

    def apply() -> None:
        program = _FilterProgram(len(code) // 8, code)  # an instruction has 8 bytes
        mode_filter = 2  # <linux/seccomp.h>
        _prctl(Prctl.SET_SECCOMP, mode_filter, ctypes.addressof(program))

    return apply
