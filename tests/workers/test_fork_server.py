"""Start and end worker processes. No process outlives its pool."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

import reasoning_env
from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.records import TaskInfo
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import TASKS, find_task
from reasoning_env.workers import fork_server as fork_server_module
from reasoning_env.workers.fork_server import launch, start_ahead
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_env.workers.protocol import FrameLimits
from reasoning_env.workers.sandbox import MAX_FILE_MB
from reasoning_env.workers.worker import Channel
from tests.preloaded_library import fresh_children
from tests.records import make_problem
from tests.waiting import PATIENCE_S, until, wait_until

from .fake_library import write_fake_library
from .support import is_gone, kill, library_info, make, running_pool, spec

ROOT = Path(reasoning_env.__file__).parents[1]
fresh = pytest.mark.usefixtures("fresh_fork_servers")
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's part is there on Linux only")


# ------------------------------------------------------------------ the library


def _package(folder: Path, **files: str) -> Path:
    package = folder / "reasoning_gym"
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


@fresh
async def test_workers_import_the_configured_checkout_of_the_library(fake_library: Path) -> None:
    info = await library_info(fake_library)
    assert (info.path, info.version) == (str(fake_library / "reasoning_gym"), "0.0.fake")
    names = [task.name for task in info.tasks]
    assert names == sorted(names)
    assert "hang" in names
    assert {task.category for task in info.tasks} == {"acts"}
    assert info.adjustable == frozenset()


@fresh
async def test_installed_reasoning_gym_has_exactly_the_declared_tasks() -> None:
    info = await library_info(None)
    assert info.tasks == tuple(TaskInfo(name, find_task(name).category) for name in sorted(TASKS))
    assert [task.name for task in info.tasks if task.category == "other"] == ["composite"]
    assert (info.version, info.warnings) == (importlib.metadata.version("reasoning-gym"), ())


async def test_library_package_without_version_is_accepted(tmp_path: Path) -> None:
    info = await library_info(_package(tmp_path, __init__="", factory="DATASETS = {}"))
    assert (info.version, info.tasks) == ("unknown", ())


@pytest.mark.parametrize("factory", ["DATASETS = None", "DATASETS = {'a': None}", "raise ValueError('odd')"])
async def test_library_with_an_unreadable_task_registry_raises_worker_error(tmp_path: Path, factory: str) -> None:
    with pytest.raises(WorkerError, match=r"cannot be imported by a worker .*; reinstall reasoning-gym, or correct ch"):
        await library_info(_package(tmp_path, __init__="", factory=factory))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit('leaving')", "SystemExit: leaving"),
        ("import os, sys; sys.stderr.write('out of luck'); sys.stderr.flush(); os._exit(9)", "out of luck"),
    ],
)
async def test_cause_of_a_failed_library_import_is_raised(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(WorkerError, match=f": {cause}"):
        await library_info(_package(tmp_path, __init__=text))


async def test_library_import_error_reaches_a_main_process_that_reads_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, the test process may read the error late."""
    open_channel = fork_server_module.Channel.open

    async def open_late(sock: socket.socket, limits: FrameLimits) -> Channel:
        await until(lambda: select.select([sock], [], [], 0.0)[0])
        await asyncio.sleep(0.1)  # a process that does not wait would end in this time
        return await open_channel(sock, limits)

    monkeypatch.setattr(fork_server_module.Channel, "open", open_late)
    with pytest.raises(WorkerError, match=": ModuleNotFoundError: No module named 'no_such_module'"):
        await library_info(_package(tmp_path, __init__="import no_such_module"))


@fresh
async def test_hanging_library_import_times_out(
    tmp_path: Path, temp_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server_module.ForkServer, "STOP_TIMEOUT_S", 0.1)
    package = _package(tmp_path, __init__="import time; time.sleep(600)")
    monkeypatch.setattr(fork_server_module, "WORKER_START_TIMEOUT_S", 0.5)
    with pytest.raises(WorkerError, match=r"no worker process was ready after 0\.5 s"):
        await library_info(package)
    assert list(temp_folder.iterdir()) == []


# ------------------------------------------------------------------ properties of a worker


@pytest.fixture(scope="module")
def report(fake_library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A generator's report about its own process. The parent process has a secret in its environment."""

    async def ask() -> dict[str, Any]:
        async with running_pool(fake_library, worker_memory_mb=700) as pool:
            report: dict[str, Any] = json.loads((await make(pool, "inspect")).question)
            pid = pool.worker_pids[0]
            autogroup = Path(f"/proc/{pid}/autogroup")
            return {
                **report,
                "known_pid": pid,
                "seen": _seen_in_processes(pool),
                "autogroup": autogroup.read_text() if autogroup.exists() else None,
            }

    temp_folder = tmp_path_factory.mktemp("temp")
    with pytest.MonkeyPatch.context() as patch, fresh_children():
        patch.setattr(tempfile, "tempdir", str(temp_folder))
        patch.setenv("OPENAI_API_KEY", "secret-key")
        patch.setenv("PYTHONHASHSEED", "1")
        return {**asyncio.run(ask()), "temp_folder": str(temp_folder)}


def _seen_in_processes(pool: WorkerPool) -> str:
    """Return environments and command lines of the fork server and the workers, as far as this user can read them."""
    folders = [Path(f"/proc/{pid}") for pid in (_fork_server_pid(pool), *pool.worker_pids)]
    files = [folder / name for folder in folders for name in ("environ", "cmdline")]
    files = [file for file in files if os.access(file, os.R_OK)]
    return b" ".join(file.read_bytes() for file in files).decode(errors="replace")


def test_environment_variables_of_a_worker_contain_no_secrets(report: dict[str, Any]) -> None:
    allowed = {"PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MPLBACKEND"}
    allowed |= {"HOME", "TMPDIR", "XDG_CACHE_HOME", "LC_ALL", "LC_CTYPE", "TZ"}
    assert set(report["environment"]) <= allowed
    assert "secret-key" not in json.dumps(report)


def test_workers_have_a_fixed_pythonhashseed(report: dict[str, Any]) -> None:
    assert (report["environment"]["PYTHONHASHSEED"], report["hash_randomization"]) == ("0", 0)


def test_worker_has_its_own_folder_and_unix_session(report: dict[str, Any]) -> None:
    assert report["session"] == report["pid"] == report["known_pid"] != os.getsid(0)
    directory, temp_folder = Path(report["directory"]), Path(report["temp_folder"])
    assert directory.resolve().is_relative_to(temp_folder.resolve())
    assert directory.name == "1"


def test_worker_has_only_four_open_file_descriptors(report: dict[str, Any]) -> None:
    assert report["stdio_is_null"] == [True, True, True]
    assert report["stdin"] == ""
    assert len(report["descriptors"]) == 4


def test_fresh_worker_has_not_imported_sympy(report: dict[str, Any]) -> None:
    assert report["has_sympy"] is False


def test_worker_has_resource_limits_and_low_priority(report: dict[str, Any]) -> None:
    assert report["niceness"] == min(19, os.nice(0) + 3)
    assert (report["memory"], report["file_size"]) == ([700 << 20] * 2, [MAX_FILE_MB << 20] * 2)


def test_linux_autogroup_of_each_worker_has_niceness_3(report: dict[str, Any]) -> None:
    if report["autogroup"] is None:
        pytest.skip("this kernel does not group processes by session")
    assert report["autogroup"].split()[-1] == "3"


# ------------------------------------------------------------------ ends


async def test_closing_the_pool_kills_hanging_workers(fake_library: Path, temp_folder: Path, tmp_path: Path) -> None:
    async with running_pool(fake_library, num_generators=2, num_verifiers=2) as pool:
        pids = [*pool.worker_pids, _fork_server_pid(pool)]
        assert len(set(pids)) == 5
        waiting = [
            asyncio.create_task(pool.generate(spec("hang", marker=str(tmp_path / "making")), PATIENCE_S)),
            asyncio.create_task(pool.score(await make(pool), [f"once {tmp_path / 'judging'} hang"])),
        ]
        await until(lambda: (tmp_path / "making").exists() and (tmp_path / "judging").exists())
        await pool.close()  # the end of the `async with` block closes the pool again
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [pid for pid in pids if not is_gone(pid)] == []
    assert list(temp_folder.iterdir()) == []
    assert pool.worker_pids == ()


async def test_fork_server_ends_even_if_the_stop_call_is_cancelled(fake_library: Path, temp_folder: Path) -> None:
    """A pool may be closed while it replaces a fork server that does not respond."""
    settings = PoolSettings(ReasoningSettings(num_generators=1), fake_library)
    server = launch(PoolSettings(default_checkout=fake_library))
    await server.start(settings)
    os.kill(server.process.pid, signal.SIGSTOP)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0.05)
    stopping.cancel()
    await asyncio.wait([stopping])
    assert is_gone(server.process.pid)
    assert list(temp_folder.iterdir()) == []


async def test_folder_of_a_replaced_worker_is_removed(fake_library: Path, temp_folder: Path) -> None:
    async with running_pool(fake_library) as pool:
        [directory] = temp_folder.iterdir()
        with pytest.raises(GenerationError):
            await make(pool, "crash")
        await make(pool)
        await until(lambda: sorted(path.name for path in directory.iterdir() if path.is_dir()) == ["2", "4"])


async def test_prestarted_fork_server_is_not_used_for_a_library_checkout(fake_library: Path) -> None:
    start_ahead()
    (ahead,) = fork_server_module._started_ahead
    assert (await library_info(fake_library)).version == "0.0.fake"
    assert ahead.process.poll() is None
    assert (await library_info(None)).version == importlib.metadata.version("reasoning-gym")
    assert ahead.process.returncode == 0


def test_prestarted_fork_server_ends_with_the_program(tmp_path: Path) -> None:
    program = """if True:
        from reasoning_env.workers import fork_server
        fork_server.start_ahead()
        print(fork_server._started_ahead[0].process.pid)
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wait_until(lambda: is_gone(int(ended.stdout)))
    wait_until(lambda: not list(tmp_path.iterdir()))


FORGETFUL = """
import asyncio, json, sys
from pathlib import Path
from reasoning_env import PoolSettings, ReasoningSettings, WorkerPool

async def main(checkout):
    pool = WorkerPool(PoolSettings(ReasoningSettings(num_generators=1, num_verifiers=1, checkout=checkout)))
    await pool.start()
    while len(pool.worker_pids) < 2:
        await asyncio.sleep(0.01)
    print(json.dumps([pool.fork_servers.current.process.pid, *pool.worker_pids]))

"""


@pytest.mark.parametrize("run", ["asyncio.run(main(sys.argv[1]))", "loop.run_until_complete(main(sys.argv[1]))"])
def test_program_that_never_closes_a_pool_leaves_no_process(fake_library: Path, tmp_path: Path, run: str) -> None:
    program = f"{FORGETFUL}loop = asyncio.new_event_loop()\n{run}"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(fake_library)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wait_until(lambda: all(map(is_gone, json.loads(ended.stdout))))
    wait_until(lambda: not list(tmp_path.iterdir()))


async def test_pool_grows_to_the_configured_size(fake_library: Path) -> None:
    pool = WorkerPool(PoolSettings(ReasoningSettings(num_generators=2, num_verifiers=3), fake_library))
    try:
        await pool.start(workers=1)
        await until(lambda: len(pool.worker_pids) == 2)
        pool.grow()
        await until(lambda: len(pool.worker_pids) == 5)
    finally:
        await pool.close()


@fresh
async def test_killed_fork_server_is_replaced(fake_library: Path, temp_folder: Path) -> None:
    async with running_pool(fake_library) as pool:
        old = pool.worker_pids
        os.kill(_fork_server_pid(pool), signal.SIGKILL)
        await until(lambda: all(map(is_gone, old)))
        problem = await make(pool, seed=5)
        assert problem.answer == "5"
        assert [verdict.score for verdict in await pool.score(problem, ["5", "6"])] == [1.0, 0.0]
        assert pool.stats.fork_servers_started == 2
        assert not set(pool.worker_pids) & set(old)
    assert list(temp_folder.iterdir()) == []


async def test_fork_server_is_replaced_each_time_it_is_killed(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    for _ in range(5):
        kill([_fork_server_pid(pool)])
        await until(lambda: pool.fork_servers.current is not None and pool.fork_servers.current.is_usable)
    assert [verdict.score for verdict in await pool.score(problem, ["3", "4"])] == [1.0, 0.0]


KILLED_AT_IMPORT = """
import os, signal
from pathlib import Path

kills = Path(__file__).with_name("kills")
left = int(kills.read_text())
kills.write_text(str(left - 1))
if left > 0:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed_at_import(tmp_path: Path) -> Path:
    """A checkout whose import kills the process, as many times as the file `kills` says."""
    package = write_fake_library(tmp_path) / "reasoning_gym"
    (package / "__init__.py").write_text(KILLED_AT_IMPORT + (package / "__init__.py").read_text())
    return tmp_path


async def test_fork_server_killed_at_start_is_restarted(
    killed_at_import: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (killed_at_import / "reasoning_gym" / "kills").write_text("2")
    assert (await library_info(killed_at_import)).version == "0.0.fake"
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert lines == 2 * [
        "the process that imports reasoning-gym was killed by another process or the kernel (SIGKILL); "
        "the pool starts the process again"
    ]


async def test_fork_server_killed_at_every_start_raises_worker_error(killed_at_import: Path, temp_folder: Path) -> None:
    (killed_at_import / "reasoning_gym" / "kills").write_text("99")
    with pytest.raises(
        WorkerError,
        match=r"^the process that imports reasoning-gym was killed by another process or the kernel \(SIGKILL\)$",
    ):
        await library_info(killed_at_import)
    assert (killed_at_import / "reasoning_gym" / "kills").read_text() == "96"
    assert list(temp_folder.iterdir()) == []


async def test_unexpected_error_at_a_worker_start_fails_only_one_job(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fork_server_module.ForkServer, "spawn", AsyncMock(side_effect=RuntimeError("unforeseen")))
        kill(pool.worker_pids)
        with pytest.raises(WorkerError, match="RuntimeError: unforeseen"):
            await make(pool)
    await until(lambda: pool.fault is None)
    assert (await make(pool, seed=7)).answer == "7"
    assert "unforeseen" in caplog.text


async def test_library_that_breaks_while_in_use_raises_worker_error(broken: WorkerPool) -> None:
    with pytest.raises(WorkerError, match="ValueError: removed"):
        await make(broken)
    with pytest.raises(WorkerError, match="ValueError: removed"):
        await broken.score(make_problem(), ["1"])


async def test_pool_reports_a_broken_library_in_one_line(broken: WorkerPool, caplog: pytest.LogCaptureFixture) -> None:
    fault = broken.fault or ""
    assert fault.startswith("no generator is alive: ") and "ValueError: removed" in fault
    assert len(fault.splitlines()) == 1


async def test_library_is_imported_again_after_its_files_were_repaired(broken: WorkerPool, mended: Path) -> None:
    mended.rename(mended.with_name("__init__.py"))
    await until(lambda: len(broken.worker_pids) == 2)
    assert broken.fault is None
    assert (await make(broken, seed=7)).answer == "7"


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """The path of the working `__init__.py`, which is renamed to break the package."""
    return tmp_path / "reasoning_gym" / "mended"


@pytest.fixture
async def broken(tmp_path: Path, mended: Path) -> AsyncIterator[WorkerPool]:
    """A pool whose library broke while the pool ran, and whose fork server was killed. No process can be started."""
    checkout = write_fake_library(tmp_path)
    package = checkout / "reasoning_gym"
    async with running_pool(checkout) as pool:
        (package / "__init__.py").rename(mended)
        (package / "__init__.py").write_text("raise ValueError('removed')")
        os.kill(_fork_server_pid(pool), signal.SIGKILL)
        await until(lambda: "removed" in (pool.fault or ""))
        yield pool


async def test_pool_recovers_from_too_many_open_files(pool: WorkerPool, temp_folder: Path) -> None:
    problem = await make(pool, seed=3)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 8, hard))
    try:
        taking = asyncio.create_task(_take_descriptors(taken))
        await asyncio.sleep(0)
        kill(pool.worker_pids)
        await until(lambda: pool.worker_pids == ())
        with pytest.raises(WorkerError, match="Too many open files"):
            await pool.score(problem, ["3"])
    finally:
        taking.cancel()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    await until(lambda: pool.fault is None)
    assert [verdict.score for verdict in await pool.score(problem, ["3", "4"])] == [1.0, 0.0]
    assert pool.stats.fork_servers_started == 1


async def _take_descriptors(taken: list[int]) -> None:
    """Take every free descriptor, and every descriptor that becomes free when a worker ends."""
    while True:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        await asyncio.sleep(0)


def _fork_server_pid(pool: WorkerPool) -> int:
    assert pool.fork_servers.current is not None
    return pool.fork_servers.current.process.pid


MAIN_PROCESS = """
import asyncio, json, sys
from pathlib import Path
from reasoning_env import PoolSettings, ProblemSpec, ReasoningSettings, WorkerPool
from reasoning_env.records import ProblemRequest, Split

async def main(checkout, marker):
    pool = WorkerPool(PoolSettings(ReasoningSettings(checkout=checkout)))
    await pool.start()
    spec = ProblemSpec(ProblemRequest("hang", 1, {"marker": marker}), Split.TRAIN, 0)
    hanging = asyncio.create_task(pool.generate(spec, 600.0))
    while len(pool.worker_pids) < 4 or not Path(marker).exists():
        await asyncio.sleep(0.01)
    print(json.dumps([pool.fork_servers.current.process.pid, *pool.worker_pids]), flush=True)
    await hanging

asyncio.run(main(*sys.argv[1:]))
"""


def _start_main_process(fake_library: Path, folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process with a pool, and return the process ids of its fork server and workers.

    One generator never finishes.
    """
    (folder / "temp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN_PROCESS, str(fake_library), str(folder / "marker")],
        env={**os.environ, "TMPDIR": str(folder / "temp"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())
    assert not any(map(is_gone, pids))
    return process, pids


@pytest.mark.parametrize("fork_server_too", [False, pytest.param(True, marks=linux_only)])
def test_kill_9_of_the_pool_owner_leaves_no_process(
    fake_library: Path, tmp_path: Path, *, fork_server_too: bool
) -> None:
    process, pids = _start_main_process(fake_library, tmp_path)
    with process:
        if fork_server_too:
            os.kill(pids[0], signal.SIGKILL)
        process.kill()
        wait_until(lambda: all(map(is_gone, pids)))
    # If both processes are killed, no process remains that could remove the folder.
    assert fork_server_too or list((tmp_path / "temp").iterdir()) == []
