"""Workers that start later get the same sandbox layers and read permissions as the first, or do not start."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from reasoning_env.errors import WorkerError
from reasoning_env.records import Reason
from reasoning_env.settings import ReasoningSettings
from reasoning_env.sources.score_function import ScoreFunction, problem_of_row
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_env.workers.sandbox import Restrictions, Sandbox
from tests.preloaded_library import fresh_children
from tests.waiting import PATIENCE_S, until

from .fake_library import write_fake_library
from .sandbox_probes import LANDLOCK, SECCOMP, run_python
from .support import kill, make, running_pool

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock and seccomp are Linux's")


# ------------------------------------------------------------------ paths that change during a session

FUNCTION = """
def score(completion, path):
    with open(path) as file:
        return float(file.read() == "content")
"""
READ, REFUSED = (1.0, Reason.SCORED), (0.0, Reason.VERIFIER_ERROR)


@dataclasses.dataclass(frozen=True)
class Folders:
    """The module of a score function, a folder that it may read, and a folder that it must not read."""

    root: Path

    @property
    def module(self) -> Path:
        return self.root / "module" / "my_rewards.py"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def secret(self) -> Path:
        return self.root / "secret"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path)
    for folder in (folders.module.parent, folders.data, folders.secret):
        folder.mkdir()
        (folder / "text").write_text("content")
    folders.module.write_text(FUNCTION)
    return folders


@asynccontextmanager
async def _scoring(folders: Folders) -> AsyncIterator[WorkerPool]:
    """Start a pool with one verifier. Skip the test if Landlock is missing."""
    user = ReasoningSettings(num_verifiers=1, scoring_deadline_s=PATIENCE_S)
    function = ScoreFunction(f"{folders.module}:score", read=[folders.data])
    pool = WorkerPool(PoolSettings.of_function(function, user))
    await pool.start()
    try:
        if LANDLOCK in pool.fork_servers.sandbox.partition("; not by ")[2]:
            pytest.skip(pool.fork_servers.sandbox)
        await until(lambda: len(pool.worker_pids) == 1)
        yield pool
    finally:
        await pool.close()


async def _reads(pool: WorkerPool, path: Path) -> tuple[float, Reason]:
    (verdict,) = await pool.score(problem_of_row({"path": str(path)}), ["completion"])
    return verdict.score, verdict.reason


async def _replace_worker(pool: WorkerPool) -> None:
    before = pool.worker_pids
    kill(before)
    await until(lambda: bool(pool.worker_pids) and pool.worker_pids != before)


async def _replace_fork_server(pool: WorkerPool) -> None:
    assert pool.fork_servers.current is not None
    before = pool.worker_pids
    kill([pool.fork_servers.current.process.pid])
    await until(lambda: bool(pool.worker_pids) and pool.worker_pids != before)


def _replace_by_link(path: Path, target: Path) -> None:
    path.rename(path.with_suffix(".old"))
    path.symlink_to(target)


def _replace_by_copy(folder: Path) -> None:
    folder.rename(folder.with_suffix(".old"))
    shutil.copytree(folder.with_suffix(".old"), folder)


CHANGES: dict[str, Callable[[Folders], object]] = {
    "module removed": lambda folders: folders.module.unlink(),
    "module renamed": lambda folders: folders.module.rename(folders.root / "renamed.py"),
    "module unreadable": lambda folders: folders.module.parent.chmod(0),
    "module replaced by a link": lambda folders: _replace_by_link(folders.module, folders.secret / "text"),
    "folder removed": lambda folders: shutil.rmtree(folders.data),
    "folder renamed": lambda folders: folders.data.rename(folders.root / "renamed"),
    "folder unreadable": lambda folders: folders.data.chmod(0),
    "folder replaced by a link": lambda folders: _replace_by_link(folders.data, folders.secret),
    "folder replaced by a link to all files": lambda folders: _replace_by_link(folders.data, Path("/")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_replacing_or_removing_granted_files_gives_workers_no_new_access(
    folders: Folders, change: Callable[[Folders], object]
) -> None:
    async with _scoring(folders) as pool:
        assert await _reads(pool, folders.secret / "text") == REFUSED
        change(folders)
        await _replace_worker(pool)
        assert await _reads(pool, folders.secret / "text") == REFUSED
        assert await _reads(pool, Path("/etc/passwd")) == REFUSED
        assert await _reads(pool, folders.module) == REFUSED or folders.module.read_text() == FUNCTION


async def test_symbolic_link_that_replaces_a_granted_path_is_not_followed(folders: Folders) -> None:
    async with _scoring(folders) as pool:
        assert await _reads(pool, folders.data / "text") == READ
        _replace_by_link(folders.data, folders.secret)
        await _replace_worker(pool)
        assert await _reads(pool, folders.data / "text") == REFUSED


async def test_granted_folder_stays_readable_at_its_new_path_after_it_was_renamed(folders: Folders) -> None:
    async with _scoring(folders) as pool:
        folders.data.rename(folders.root / "renamed")
        await _replace_worker(pool)
        assert await _reads(pool, folders.root / "renamed" / "text") == READ


@pytest.mark.parametrize("linked", [False, True])
async def test_new_fork_server_denies_access_if_a_granted_folder_was_replaced(folders: Folders, linked: bool) -> None:
    async with _scoring(folders) as pool:
        if linked:
            _replace_by_link(folders.data, folders.secret)
        else:
            _replace_by_copy(folders.data)
        await _replace_fork_server(pool)
        assert await _reads(pool, folders.data / "text") == REFUSED


async def test_workers_of_a_new_fork_server_can_read_a_granted_folder(folders: Folders) -> None:
    async with _scoring(folders) as pool:
        await _replace_fork_server(pool)
        assert await _reads(pool, folders.data / "text") == READ


# ------------------------------------------------------------------ layers that fail later

FAILING = """
from pathlib import Path
from reasoning_env.workers import sandbox

def fail_on_demand(owner, name, first, layer):
    call = getattr(owner, name)

    def patched(*arguments):
        if arguments[0] == first and Path(__file__).with_name(layer).exists():
            raise OSError({code}, "No memory")
        return call(*arguments)

    setattr(owner, name, patched)
"""
"""Source of a library in which a sandbox layer fails while a file with the layer's name exists in the package."""
SYSTEM_CALLS = {
    "process limit": (".resource", "setrlimit", "sandbox.resource.RLIMIT_NPROC"),
    SECCOMP: ("", "_prctl", "sandbox.Prctl.SET_SECCOMP"),
    "no_new_privs": ("", "_prctl", "sandbox.Prctl.SET_NO_NEW_PRIVS"),
    "SIGKILL when the fork server ends": ("", "_prctl", "sandbox.Prctl.SET_PDEATHSIG"),
    "private memory": ("", "_prctl", "sandbox.Prctl.SET_DUMPABLE"),
    LANDLOCK: ("", "_landlock_call", "sandbox.Landlock.RESTRICT_SELF"),
    "memory limit": (".resource", "setrlimit", "sandbox.resource.RLIMIT_AS"),
    "limit of open files": (".resource", "setrlimit", "sandbox.resource.RLIMIT_NOFILE"),
    "file size limit": (".resource", "setrlimit", "sandbox.resource.RLIMIT_FSIZE"),
    "no core dumps": (".resource", "setrlimit", "sandbox.resource.RLIMIT_CORE"),
}
"""The call that applies each layer: its module, its name and its first argument."""


@dataclasses.dataclass(frozen=True)
class FailingSandbox:
    """A pool with one verifier, and the folder in which a file named like a layer makes this layer fail."""

    pool: WorkerPool
    package: Path

    def skip_without(self, layer: str) -> None:
        if f"{layer} (" in self.pool.fork_servers.sandbox:
            pytest.skip(self.pool.fork_servers.sandbox)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def failing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FailingSandbox]:
    checkout = tmp_path_factory.mktemp("failing")
    package = write_fake_library(checkout) / "reasoning_gym"
    calls = [
        f"fail_on_demand(sandbox{place}, {name!r}, {first}, {layer!r})\n"
        for layer, (place, name, first) in SYSTEM_CALLS.items()
    ]
    text = FAILING.format(code=errno.ENOMEM) + "".join(calls)
    (package / "__init__.py").write_text(text + (package / "__init__.py").read_text())
    with fresh_children():
        async with running_pool(checkout, sandbox_verifiers=True) as pool:
            yield FailingSandbox(pool, package)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("layer", SYSTEM_CALLS)
async def test_worker_that_cannot_apply_a_sandbox_layer_does_not_start(failing: FailingSandbox, layer: str) -> None:
    failing.skip_without(layer)
    pool = failing.pool
    problem = await make(pool, seed=3)
    (failing.package / layer).touch()
    kill(pool.worker_pids[1:])
    with pytest.raises(WorkerError, match=f"a new worker cannot set up .*: {layer}: No memory"):
        await pool.score(problem, ["3"])
    (failing.package / layer).unlink()
    await until(lambda: len(pool.worker_pids) == 2)
    assert [verdict.score for verdict in await pool.score(problem, ["3"])] == [1.0]


@pytest.mark.asyncio(loop_scope="module")
async def test_new_fork_server_raises_if_a_sandbox_layer_no_longer_works(failing: FailingSandbox) -> None:
    failing.skip_without(SECCOMP)
    pool = failing.pool
    problem = await make(pool, seed=3)
    (failing.package / SECCOMP).touch()
    assert pool.fork_servers.current is not None
    kill([pool.fork_servers.current.process.pid])
    await until(lambda: not pool.worker_pids)
    with pytest.raises(WorkerError, match=r"a sandbox layer .*: seccomp \(No memory\)"):
        await pool.score(problem, ["3"])
    (failing.package / SECCOMP).unlink()


def test_error_names_the_failed_sandbox_layer() -> None:
    applied: list[str] = []

    def fail() -> None:
        raise OSError(errno.ENOMEM, "No memory")

    limits = {"memory limit": lambda: applied.append("memory limit")}
    layers = {"seccomp": fail, "Landlock": lambda: applied.append("Landlock")}
    with pytest.raises(OSError, match=r"^seccomp: No memory$"):
        Sandbox(limits, layers, Restrictions([], [], {})).enter(is_verifier=True)
    assert applied == ["memory limit"]


def test_sandbox_layer_that_a_later_worker_lacks_is_reported_with_the_reason() -> None:
    first = Restrictions(["memory limit"], ["seccomp"], {})
    assert first.lost(first) is None
    assert first.lost(Restrictions(["memory limit"], [], {"seccomp": "no memory"})) == "seccomp (no memory)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_sandbox_ignores_a_granted_path_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "file").touch()
    (tmp_path / "closed").chmod(0)
    script = (
        "import os\nfrom reasoning_env.workers.sandbox import prepare\n"
        f"os.setuid(65534)\nprint(prepare(2000, [{str(tmp_path / 'closed' / 'file')!r}]).restrictions.readable)"
    )
    assert run_python(script) == "[]\n"
