"""Restrict worker processes: limits for all, Landlock and seccomp for those that read model text.

Runs in the fork server and its workers only. The first defence is the guards in front of the verifiers, which keep
model text away from `eval` and similar functions. The sandbox is the second. Code that runs in a verifier worker all
the same cannot write a file, read a file outside the interpreter and its packages, open a socket, start a process,
signal another process, move another process to another core, or lock a file. No layer needs privileges.

- Limits, for every worker: memory, size of files, open files, core dumps, end with the fork server. Also processor
  priority, which is no defence.
- Process limit: no child processes; root is exempt.
- no_new_privs: started programs get no privileges.
- Landlock (Linux 5.13 or newer): only files that imports read.
- seccomp: no system calls but those that verifiers need, which neither write, connect, fork nor signal.

The fork server tries all layers once, in a process of its own. A layer that the system refuses there is missing for the
whole session, and `Restrictions` says why. Each worker then applies every other layer, or does not start: an error of a
layer never leaves a worker with fewer layers. Files that verifiers may read are opened at the start of the session, so
that what becomes of their paths later changes nothing. A fork server that replaces another one must have the same
layers, and lets verifiers read none but the same files and folders.

The sandbox does not protect against:

- Missing layers. On macOS, and where Landlock and seccomp are missing, only the limits hold. Code that runs could then
  read and write the user's files, connect to any address and signal other processes. There the guards stand alone.
- False scores. Code that runs could give any answer in its own worker any score from 0 to 1, until the worker is
  replaced. The main process checks the form of replies, not their truth.
- Reading the files that imports read (Python's folders, packages, shared libraries), asking whether a file exists, and
  using memory and time up to the limits.
- Faults of the kernel.

Order: the fork server calls `prepare` once. Straight after the fork, a worker calls `enter_worker`, then
`Sandbox.enter`. Only then does it tell the main process that it is ready, and read requests. No layer can be removed
again.
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

from .protocol import Restrictions


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


MAX_FILE_MB = 16
"""Size of the largest file that a worker can write, in megabytes."""


def enter_worker(directory: str, niceness: int, keep_fds: Collection[int]) -> None:
    """Give a freshly forked process its own session, folder and priority; close all files except `keep_fds`."""
    os.setsid()
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    _close_files(keep_fds)
    with contextlib.suppress(OSError):
        os.nice(niceness)
    set_group_priority(niceness)
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


def _die_with_parent(parent: int) -> None:
    """Have Linux kill this process when the fork server ends, even a busy process that reads no socket."""
    _prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the fork server has ended already
        os._exit(1)


def _close_files(keep_fds: Collection[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # More descriptors than the fork server ever has, and few enough to close one by one.
    highest = 4096 if highest == resource.RLIM_INFINITY else min(highest, 4096)
    first = 3
    for kept in sorted(keep_fds):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, highest)


def _lower(limit: int, value: int) -> None:
    """Set a limit for good: a lower limit stays. Raises OSError if the system refuses the limit."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(limit, (value, value))
    except ValueError as error:  # how Python reports some errors of the system
        raise OSError(str(error)) from error


# ------------------------------------------------------------------ which layers hold


Layers = Mapping[str, Callable[[], object]]
"""Layers by name, in order of application, each with a function that restricts this process for good, or raises
OSError."""


@dataclass(frozen=True)
class Sandbox:
    """The layers of a session's workers, and the descriptors that the layers need until they are applied."""

    limits: Layers
    layers: Layers
    restrictions: Restrictions
    descriptors: Collection[int] = ()

    def enter(self, *, is_verifier: bool) -> None:
        """Apply the limits to this process for good; to a verifier worker also the other layers.

        Raises OSError with the name of the first layer that cannot be applied: the process must not go on then.
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
    """Prepare and try the layers; this process itself is not restricted.

    Args:
        memory_mb: Address space of every worker, in megabytes.
        read_paths: Files and folders below which a verifier worker may read. Those that cannot be opened are left out.
        threads: A verifier worker may start threads. The process limit, which counts threads too, is then missing.
        filtered: False leaves out all layers but the limits, for a library whose verifiers need what the layers deny.
        at_start: What restricted the session's first workers. Files and folders that those could not read are left out.

    Raises OSError if the layers cannot be tried.
    """
    missing: dict[str, str] = {}
    layers: dict[str, Callable[[], object]] = {}
    opened: dict[tuple[int, int], int] = {}
    descriptors: list[int] = []
    if not filtered:
        missing["any layer"] = "sandbox_verifiers is off"
    elif os.geteuid() == 0:
        missing["process limit"] = "root is exempt from it"
    elif threads:
        missing["process limit"] = "it would count threads"
    else:
        # First, since seccomp denies setting limits.
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
    missing |= _try({**of_all, **layers})
    of_all = {name: apply for name, apply in of_all.items() if name not in missing}
    layers = {name: apply for name, apply in layers.items() if name not in missing}
    restrictions = Restrictions(list(of_all), list(layers), missing, list(opened))
    return Sandbox(of_all, layers, restrictions, descriptors)


def _limits(memory_mb: int) -> Layers:
    """Return the layers of every worker."""
    found: dict[str, Callable[[], object]] = {
        # Linux ignores a limit of 0 where another program receives core dumps, and makes none at a limit of 1.
        "no core dumps": lambda: _lower(resource.RLIMIT_CORE, 1),
        "limit of open files": lambda: _lower(resource.RLIMIT_NOFILE, 64),
        "limit of file size": lambda: _lower(resource.RLIMIT_FSIZE, MAX_FILE_MB * 2**20),
        "memory limit": lambda: _lower(resource.RLIMIT_AS, memory_mb * 2**20),
    }
    if sys.platform.startswith("linux"):
        parent = os.getpid()
        found["end with the fork server"] = lambda: _die_with_parent(parent)
    return found


def _try(layers: Layers) -> dict[str, str]:
    """Apply layers in a process of its own, which then ends; return why layers failed, by name. Raises OSError."""
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
        raise OSError(f"a process that tried the sandbox ended with status {os.waitstatus_to_exitcode(status)}")
    return dict(json.loads(text))


def code_paths() -> list[str]:
    """Return the paths that imports read: of Python, packages, shared libraries and this package."""
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
        raise OSError(f"there is none on {sys.platform}")


# ------------------------------------------------------------------ Landlock: which files a verifier worker reads

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


def _open(paths: Sequence[str], only: Collection[tuple[int, int]] | None) -> dict[tuple[int, int], int]:
    """Return a descriptor of each file and folder, by its device and inode number.

    Leaves out what cannot be opened, and what is not among `only`, if that is given. Opens nothing but on Linux.
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
    """Return a function that denies this process all actions on files but reading `opened` files and folders.

    All workers use one set of rules, whose descriptor is added to `descriptors`.
    """
    attributes = _RulesetAttributes(landlock_access(_landlock_version()))
    no_flags = ctypes.c_uint32(0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    made = _landlock_call(Landlock.CREATE_RULESET, ctypes.byref(attributes), size, no_flags)
    # Not the first free number, which a worker's socket gets.
    ruleset = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 16)
    os.close(made)
    descriptors.append(ruleset)
    for descriptor in opened:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        _allow(ruleset, descriptor, READ_FILE | READ_FOLDER if is_folder else READ_FILE)
    return lambda: _landlock_call(Landlock.RESTRICT_SELF, ctypes.c_int(ruleset), no_flags)


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


def _allow(ruleset: int, descriptor: int, access: int) -> None:
    """Add to a ruleset that an open file, or all files below an open folder, may be accessed."""
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
"""All system calls that a verifier worker may make: name, number on x86_64, number on aarch64 (-: it has none).

These are the calls that verifiers, numpy, sympy, scipy and score functions with threads were seen to make on Python
3.11 to 3.13, and those by which another C library does the same. In traces of all tasks, of RLVE's 400 environments and
of score functions with two dozen libraries, nothing was refused but attempts to write files, start threads without
leave and open sockets, clone3 (then clone is used), and a statfs of libselinux. Entries that need a reason:

- recvfrom, sendto: how Python's sockets read and write. The worker has one socket, connected to the main process.
- mbind: OpenBLAS, for its own buffers.
- epoll, eventfd2: how the threads of Rust libraries wait, such as those of polars.
- alarm, setitimer: time limits of score functions and of math-verify. A process has three timers, its own.
- rseq, set_robust_list: the C library ends a process whose new thread is refused the first.
- chdir: score functions with files beside them (`--read`). It decides nothing about access.
"""

TABLES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
"""The number in <linux/audit.h> of each machine with a column of ALLOWED_CALLS, and the column."""

FIRST_COMMON_NUMBER = 424
"""From here on calls have one number on all machines. They are newer than Linux 5.0, so that libraries know that they
may be missing."""


@dataclass(frozen=True)
class Check:
    """Allow a call only if the masked lower 32 bits of an argument, or its higher 32 bits, have one of some values.

    The kernel reads only the lower bits of flags and of commands.
    """

    argument: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF
    high: bool = False


def _is_null(argument: int) -> list[Check]:
    return [Check(argument, [0]), Check(argument, [0], high=True)]


WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
"""Bits of an open file's flags with which the opening changes something."""
CLONE_THREAD = 0x10000
CLONE_NAMESPACES = 0x7E020000
"""Flags of clone, from <linux/sched.h>: a thread of this process; any new namespace."""

MAP_LOCKED, MAP_HUGETLB = 0x2000, 0x40000
"""Flags of mmap, from <linux/mman.h>."""

CHECKS: Mapping[str, Sequence[Check]] = {
    "open": [Check(1, [0], WRITING)],
    "openat": [Check(2, [0], WRITING)],
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no signals to other processes, no locks, no leases.
    "fcntl": [Check(1, [0, 1, 2, 3, 4, 1030])],
    # TCGETS and TCGETS2 (every `open` asks whether the file is a terminal), TIOCGWINSZ (the width of tables), FIONREAD,
    # FIONBIO, FIONCLEX, FIOCLEX: others change network interfaces and flags of files, and type into terminals.
    "ioctl": [Check(1, [0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451])],
    # PR_SET_NAME and PR_GET_NAME, of a thread. A worker must not reset the signal of its parent's death.
    "prctl": [Check(0, [15, 16])],
    # No page that other processes share is moved; none is locked, or taken from the machine's stock of huge pages.
    "mbind": [Check(5, [0])],
    "mmap": [Check(3, [0], MAP_LOCKED | MAP_HUGETLB)],
    # How memory will be used, MADV_FREE, huge pages, core dumps, populating, guards. Other advice takes pages of the
    # machine out of use, or merges them with pages of other processes.
    "madvise": [Check(2, [0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 22, 23, 102, 103])],
    # Python's sockets read and write without flags. Others, such as those of out-of-band data, reach rarely used code.
    "sendto": [Check(3, [0]), *_is_null(4)],  # no address
    "recvfrom": [Check(3, [0])],
    "prlimit64": _is_null(2),  # no new limit
    "clone": [Check(0, [CLONE_THREAD], CLONE_THREAD | CLONE_NAMESPACES)],
}
"""Which arguments of calls are allowed. A call with several checks must pass each of them."""


class Op(IntEnum):
    """Instructions of packet filters, from <linux/bpf_common.h>. LOAD takes an offset in `struct seccomp_data`."""

    LOAD = 0x20
    AND = 0x54
    IF_EQUAL = 0x15
    IF_AT_LEAST = 0x35
    RETURN = 0x06


ALLOW = 0x7FFF0000
REFUSE = 0x00050000
"""Results of a filter, from <linux/seccomp.h>. REFUSE has the error in its lower bits."""


def _step(op: Op, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return an instruction; a condition skips `if_true` or `if_false` of the instructions that follow it."""
    return struct.pack("=HBBI", op, if_true, if_false, operand)


def allowed_numbers(column: int, *, threads: bool) -> dict[str, int]:
    """Return the numbers of the allowed calls by name, from a column of ALLOWED_CALLS."""
    words = iter(ALLOWED_CALLS.split())
    rows = zip(words, words, words, strict=True)
    return {row[0]: int(row[column]) for row in rows if row[column] != "-" and (threads or row[0] != "clone")}


def compile_filter(machine: str, *, threads: bool) -> bytes:
    """Return the program that the kernel runs at each system call, for a machine of TABLES.

    A call that is not allowed gets EPERM; calls of another interface of the machine, and from FIRST_COMMON_NUMBER on,
    get ENOSYS: libraries then use older calls.
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
            for left in range(len(check.values), 0, -1):
                body.append(_step(Op.IF_EQUAL, check.values[-left], if_true=left))
            body.append(refuse)
        body.append(_step(Op.RETURN, ALLOW))
        steps += [_step(Op.IF_EQUAL, number, if_false=len(body)), *body]
    # Numbers of the interface x32 have bit 30, so they are none of the allowed numbers.
    steps += [_step(Op.IF_AT_LEAST, FIRST_COMMON_NUMBER, if_false=1), unknown, refuse]
    return b"".join(steps)


class _FilterProgram(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _seccomp(*, threads: bool) -> Callable[[], object]:
    """Compile the filter once. Applying it is then one system call."""
    machine = os.uname().machine
    if machine not in TABLES:
        raise OSError(f"there is no table of system calls for {machine}")
    if sys.maxsize < 2**32:
        raise OSError("there is no table of system calls for a Python of 32 bits")
    code = compile_filter(machine, threads=threads)

    def apply() -> None:
        program = _FilterProgram(len(code) // 8, code)  # an instruction has 8 bytes
        mode_filter = 2  # <linux/seccomp.h>
        _prctl(Prctl.SET_SECCOMP, mode_filter, ctypes.addressof(program))

    return apply
