"""The sandbox of verifier workers, tested in a real worker and for each layer alone."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from reasoning_env.records import Problem, Reason
from reasoning_env.workers.fork_server import describe_sandbox, lacks_a_filter
from reasoning_env.workers.pool import WorkerPool
from reasoning_env.workers.sandbox import FIRST_COMMON_NUMBER, TABLES, Restrictions, allowed_numbers, landlock_access
from tests.preloaded_library import fresh_children

from .sandbox_probes import BOTH, HARMLESS, HOSTILE, LANDLOCK, SECCOMP, THREADED, Run, run_probes, run_python
from .support import make, running_pool

NOBODY = 65534

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock and seccomp are Linux's")
on_one_loop = pytest.mark.asyncio(loop_scope="module")


# ------------------------------------------------------------------ a worker without guards

UNGUARDED = {
    "read a file": ("open('/etc/passwd').read()", LANDLOCK),
    "write a file": ("open('new', 'w')", SECCOMP),
    "spawn a program": ("os.posix_spawn('/bin/true', ['true'], {})", SECCOMP),
    "signal the fork server": ("os.kill(os.getppid(), 0)", SECCOMP),
}
"""Python source that a verifier without guards executes as an answer, with the layer that denies it.

The answers show that a worker enters both layers. `sandbox_probes.HOSTILE` lists what the layers deny.
"""
RAN, DENIED = (1.0, Reason.SCORED), (0.49, Reason.SCORED)


async def _execute(pool: WorkerPool, problem: Problem, source: str) -> tuple[float, Reason]:
    (verdict,) = await pool.score(problem, [f"python {source}"])
    return verdict.score, verdict.reason


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def sandboxed(fake_library: Path) -> AsyncIterator[WorkerPool]:
    with fresh_children():
        async with running_pool(fake_library, sandbox_verifiers=True) as pool:
            yield pool


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def missing(sandboxed: WorkerPool) -> dict[str, str]:
    """The sandbox layers that this machine does not have, with the log line that gives the cause."""
    line = sandboxed.fork_servers.sandbox
    return {name: line for name in BOTH if name in line.partition("; not by ")[2]}


@on_linux
@on_one_loop
@pytest.mark.parametrize(("source", "layer"), UNGUARDED.values(), ids=UNGUARDED)
async def test_sandboxed_verifier_can_use_neither_files_nor_other_processes(
    sandboxed: WorkerPool, missing: dict[str, str], source: str, layer: str
) -> None:
    if layer in missing:
        pytest.skip(missing[layer])
    assert await _execute(sandboxed, await make(sandboxed), source) == DENIED


@on_linux
async def test_hostile_system_calls_succeed_if_the_sandbox_is_off(fake_library: Path) -> None:
    async with running_pool(fake_library, sandbox_verifiers=False) as pool:
        problem = await make(pool)
        outcomes = {name: await _execute(pool, problem, source) for name, (source, _) in UNGUARDED.items()}
    assert outcomes == dict.fromkeys(UNGUARDED, RAN)


COUNT_DESCRIPTORS = """
found = []
for descriptor in range(64):
    try:
        os.fstat(descriptor)
    except OSError:
        continue
    found.append(descriptor)
if len(found) == 4:
    raise PermissionError
raise ValueError(found)
"""


@on_linux
@on_one_loop
async def test_sandboxed_verifier_has_only_the_standard_descriptors_and_the_pool_socket(sandboxed: WorkerPool) -> None:
    """Only the standard descriptors and the socket to the pool are open; Landlock's ruleset is closed."""
    assert await _execute(sandboxed, await make(sandboxed), COUNT_DESCRIPTORS) == DENIED


@on_one_loop
async def test_sandboxed_worker_still_scores_after_the_sandbox_denied_an_operation(sandboxed: WorkerPool) -> None:
    problem = await make(sandboxed, seed=3)
    verdicts = await sandboxed.score(problem, ["python open('/etc/passwd')", "3", "33"])
    assert [verdict.score for verdict in verdicts[1:]] == [1.0, 0.0]
    assert sandboxed.stats.workers_replaced == 0


@pytest.mark.parametrize(
    ("on", "told"),
    [
        (True, "^verifier workers are sandboxed by (process limit|no_new_privs)"),
        (False, "^verifier workers are sandboxed by nothing; .*sandbox_verifiers is off"),
    ],
)
async def test_sandbox_layers_are_logged_once(
    fake_library: Path, caplog: pytest.LogCaptureFixture, on: bool, told: str
) -> None:
    caplog.set_level("INFO", "reasoning_env.workers")
    async with running_pool(fake_library, num_verifiers=2, sandbox_verifiers=on) as pool:
        assert re.search(told, pool.fork_servers.sandbox)
    [record] = [record for record in caplog.records if "sandboxed" in record.getMessage()]
    assert record.getMessage() == pool.fork_servers.sandbox
    refused = pool.fork_servers.sandbox.partition("; not by ")[2]
    assert (record.levelname == "WARNING") == (on and ("Landlock" in refused or "seccomp" in refused))


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"Landlock": "refused"}, True),
        ({"seccomp": "refused"}, True),
        ({"process limit": "this limit does not apply to root"}, False),
        ({"any layer": "sandbox_verifiers is off"}, False),
    ],
)
def test_missing_landlock_or_seccomp_counts_as_a_missing_filter(missing: dict[str, str], told: bool) -> None:
    assert lacks_a_filter(Restrictions([], [], missing)) == told


# ------------------------------------------------------------------ each system call, in namespaces of its own

MAKE_CALL = """
import ctypes
if ctypes.CDLL(None, use_errno=True).syscall(*map(ctypes.c_long, [{number}, *{arguments}])) == -1:
    error = ctypes.get_errno()
    if error == {error}:
        raise PermissionError
    raise OSError(error, os.strerror(error))
"""
"""Source that makes a system call. The verdict is DENIED only if the call fails with exactly this error."""

TRY_IN_NAMESPACES = """
import asyncio, json, sys
from pathlib import Path
from tests.workers.support import make, running_pool

async def judge(library, answers):
    async with running_pool(Path(library), sandbox_verifiers=True) as pool:
        verdicts = await pool.score(await make(pool), answers)
        return pool.fork_servers.sandbox, [[verdict.score, verdict.reason] for verdict in verdicts]

print(json.dumps(asyncio.run(judge(**json.load(sys.stdin)))))
"""
PLAIN_USER = ("unshare", "--user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--mount-proc")
NAMESPACES = {"root": (*PLAIN_USER, "--map-root-user"), "a plain user": PLAIN_USER}
"""Commands that run a program in new user, mount, network, process, message and host name namespaces.

If a call is allowed by mistake, it cannot harm the machine. The root user of such a namespace cannot restart the
machine, load modules or set clocks, and has separate networks and mounts.
"""
UNFILTERED = {"x86_64": {335, 336}}
"""uretprobe and uprobe. The kernel handles them without the filter: it returns an error or ends the process."""
COMMANDS_OF_SOCKETS = {"take a network interface down": 0x8914, "list addresses": 0x8912, "signal by a socket": 0x8902}


def _refused_calls() -> dict[str, str]:
    """Return the source of each call that must fail: numbers that are not allowed, and commands to the worker's socket
    (descriptor 3).
    """
    column = TABLES[os.uname().machine][1]
    others = {*allowed_numbers(column, threads=False).values(), *UNFILTERED.get(os.uname().machine, ())}
    refused = [number for number in range(1024) if number not in others]
    sources = {
        str(number): MAKE_CALL.format(
            number=number, arguments=[-1] * 6, error=errno.EPERM if number < FIRST_COMMON_NUMBER else errno.ENOSYS
        )
        for number in refused
    }
    ioctl = allowed_numbers(column, threads=False)["ioctl"]
    for name, command in COMMANDS_OF_SOCKETS.items():
        sources[name] = MAKE_CALL.format(number=ioctl, arguments=[3, command, 0, 0, 0, 0], error=errno.EPERM)
    return sources


@on_linux
@pytest.mark.parametrize("who", ["root", pytest.param("a plain user", marks=pytest.mark.slow)])
def test_every_unlisted_system_call_is_refused(fake_library: Path, who: str) -> None:
    """The arguments are -1, so that a call that is allowed by mistake has no effect."""
    if subprocess.run([*NAMESPACES[who], "true"], capture_output=True).returncode:
        pytest.skip("this system gives no namespaces")
    if os.uname().machine not in TABLES:
        pytest.skip("no table for this machine")
    sources = _refused_calls()
    plan = {"library": str(fake_library), "answers": [f"python {source}" for source in sources.values()]}
    sandbox, verdicts = json.loads(run_python(TRY_IN_NAMESPACES, json.dumps(plan), NAMESPACES[who]))
    assert SECCOMP in sandbox.partition("; not by ")[0]
    outcomes = dict(zip(sources, map(tuple, verdicts), strict=True))
    assert {name: outcome for name, outcome in outcomes.items() if outcome != DENIED} == {}


# ------------------------------------------------------------------ layer by layer

Runner = Callable[..., Run]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Runs the hostile operations once with each set of sandbox layers. Skips the test if a layer is missing."""
    runs: dict[tuple[str, ...], Run] = {}

    def behind(*layers: str) -> Run:
        if layers not in runs:
            sources = {name: source for name, (source, _) in HOSTILE.items()}
            runs[layers] = run_probes(layers, sources, tmp_path_factory.mktemp("sandbox"))
        for layer in layers:
            if layer in runs[layers].missing:
                pytest.skip(f"{layer}: {runs[layers].missing[layer]}")
        return runs[layers]

    return behind


@on_linux
def test_hostile_operations_succeed_if_no_sandbox_layer_is_active(behind: Runner) -> None:
    assert behind().outcomes == dict.fromkeys(HOSTILE, "ran")


@on_linux
@pytest.mark.parametrize("layer", BOTH)
def test_each_sandbox_layer_denies_the_hostile_operations_that_it_covers(behind: Runner, layer: str) -> None:
    run = behind("no_new_privs", layer)
    refusals = ("PermissionError", "ValueError: not allowed to raise", "RuntimeError: can't start new thread")
    names = [name for name, (_, layers) in HOSTILE.items() if layer in layers]
    assert {name: run.outcomes[name] for name in names if not run.outcomes[name].startswith(refusals)} == {}


@on_linux
def test_harmless_operations_succeed_in_the_full_sandbox(behind: Runner, tmp_path: Path) -> None:
    assert run_probes(behind().layers, HARMLESS, tmp_path).outcomes == dict.fromkeys(HARMLESS, "ran")


@on_linux
def test_workers_can_start_threads_if_the_sandbox_allows_threads(behind: Runner, tmp_path: Path) -> None:
    layers = [layer for layer in behind().layers if layer != "process limit"]
    assert run_probes(layers, THREADED, tmp_path, threads=True).outcomes == dict.fromkeys(THREADED, "ran")


# ------------------------------------------------------------------ missing layers


@cache
def _entered(changes: str) -> Restrictions:
    """Return the restrictions of a new interpreter that enters a sandbox after these changes to its source.

    The interpreter imports only the sandbox, which takes a fifth of the time that the pool's modules take.
    """
    script = (
        "import json, os, sys\nfrom reasoning_env.workers import sandbox\n"
        f"{changes}\n"
        "prepared = sandbox.prepare(2000, sandbox.code_paths())\n"
        "for apply in prepared.layers.values():\n    apply()\n"
        "print(json.dumps(vars(prepared.restrictions)))"
    )
    return Restrictions(**json.loads(run_python(script)))


def test_each_sandbox_layer_is_applied_or_listed_with_the_cause_of_failure() -> None:
    entered = _entered("")
    assert sorted([*entered.layers, *entered.missing]) == sorted(["process limit", "no_new_privs", *BOTH])
    assert all(entered.missing.values())


@on_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_process_limit_is_applied_if_the_worker_user_is_not_root() -> None:
    become = f"os.setgid({NOBODY}); os.setuid({NOBODY}); sandbox.code_paths = lambda: []"
    assert set(_entered(become).layers) == {*_entered("").layers, "process limit"}


@on_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_process_limit_of_the_sandbox_refuses_forks() -> None:
    script = (
        "import os\nfrom reasoning_env.workers.sandbox import prepare\n"
        f"os.setuid({NOBODY})\n"
        "made = prepare(2000, [])\n"
        "made.layers['process limit']()\n"
        "try:\n    os.fork() or os._exit(0)\nexcept BlockingIOError:\n    print('refused')"
    )
    assert run_python(script) == "refused\n"


@on_linux
def test_sandbox_restricts_nothing_before_it_is_entered() -> None:
    after = "prepare = sandbox.prepare\ndef checked(*given):\n    made = prepare(*given)\n    os.listdir('/etc')\n"
    after += "    os.fork() or os._exit(0)\n    return made\nsandbox.prepare = checked"
    assert _entered(after).layers == _entered("").layers


@on_linux
@pytest.mark.parametrize("version", [1, 2, 3, 5])
def test_sandbox_also_works_with_older_landlock_versions(version: int) -> None:
    usual = _entered("")
    if LANDLOCK in usual.missing:
        pytest.skip(usual.missing[LANDLOCK])
    assert _entered(f"sandbox._landlock_version = lambda: {version}") == usual


@pytest.mark.parametrize(
    ("version", "denied"), [(1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (4, 0x7FFF), (5, 0xFFFF), (9, 0xFFFF)]
)
def test_sandbox_denies_every_file_access_that_landlock_supports(version: int, denied: int) -> None:
    assert landlock_access(version) == denied


def _landlock_fails(code: int, reason: str) -> str:
    """Return the change that makes every Landlock call fail."""
    return f"def refuse(*_):\n    raise OSError({code}, {reason!r})\nsandbox._landlock_call = refuse"


@on_linux
@pytest.mark.parametrize(
    ("layer", "changes", "reason"),
    [
        (LANDLOCK, _landlock_fails(errno.ENOSYS, ""), "not supported by this kernel"),
        (LANDLOCK, _landlock_fails(errno.EOPNOTSUPP, ""), "not enabled when the kernel started"),
        (LANDLOCK, _landlock_fails(errno.EPERM, "Not here"), "Not here"),
        (SECCOMP, "sandbox.TABLES = {}", f"there is no table of system calls for {os.uname().machine}"),
        (SECCOMP, "sys.maxsize = 2**31 - 1", "there is no table of system calls for 32-bit Python"),
        (SECCOMP, "sandbox.compile_filter = lambda machine, **_: b''", "Invalid argument"),
        (LANDLOCK, "sandbox._landlock = lambda *_: lambda: open('/no/such/file')", "No such file or directory"),
    ],
)
def test_missing_sandbox_layer_is_reported_with_the_cause(layer: str, changes: str, reason: str) -> None:
    usual = _entered("")
    entered = _entered(changes)
    if layer in usual.missing:
        pytest.skip(usual.missing[layer])
    assert entered.missing[layer] == reason
    assert set(entered.layers) == {*usual.layers} - {layer}
    assert f"{layer} ({reason})" in describe_sandbox(entered)


def test_process_limit_is_the_only_sandbox_layer_on_macos() -> None:
    changes = "import sysconfig; sysconfig.get_config_vars(); sys.platform = 'darwin'; os.geteuid = lambda: 1"
    entered = _entered(changes)
    assert entered.layers == ["process limit"]
    assert entered.missing == dict.fromkeys(["no_new_privs", *BOTH], "not available on darwin")


@on_linux
@pytest.mark.parametrize(("mounts", "is_missing"), [("proc /proc proc rw,hidepid=invisible 0 0", True), ("", False)])
def test_sandbox_does_not_protect_memory_if_proc_is_mounted_with_hidepid(
    tmp_path: Path, mounts: str, is_missing: bool
) -> None:
    (tmp_path / "mounts").write_text(mounts)
    entered = _entered(f"sandbox.MOUNTS = sandbox.Path({str(tmp_path / 'mounts')!r})")
    assert ("private memory" in entered.missing) == is_missing


@on_linux
def test_other_processes_cannot_read_the_memory_of_a_sandboxed_process() -> None:
    script = (
        "import ctypes\nfrom pathlib import Path\nfrom reasoning_env.workers import sandbox\n"
        "sandbox.MOUNTS = Path('/no/such/file')\n"
        "before = ctypes.CDLL(None).prctl(3)\n"
        "sandbox.prepare(2000, []).limits['private memory']()\n"
        "print(before, ctypes.CDLL(None).prctl(3))"
    )
    assert run_python(script) == "1 0\n"
