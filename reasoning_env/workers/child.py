"""The child processes of the pool: the fork server, which imports the library once, and its workers.

A fresh interpreter with few environment variables runs this module as a script: `python child.py <socket fd> <json>`.
The JSON says which library to import and which folder to use. Settings come over the socket, because the main process
may not have them yet when the import of the library begins.

The fork server has one thread, so forking is safe. The fork server, not the pool, kills workers: only the parent can be
sure that a process id still belongs to its child. When the main process has ended, the fork server's socket closes.
Then the fork server kills every worker, removes the workers' folders and exits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

if not __package__:
    # This file runs as a script, so the package must be found by its folder. The script's own folder is removed from
    # sys.path, so that no module in it can shadow a module that the library imports.
    del sys.path[0]
    _folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _spec = spec_from_file_location("reasoning_env", f"{_folder}/__init__.py", submodule_search_locations=[_folder])
    assert _spec is not None and _spec.loader is not None
    sys.modules["reasoning_env"] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["reasoning_env"])

from reasoning_env.records import ProblemRequest
from reasoning_env.runtime.text import error_text
from reasoning_env.sources.contract import Answers, Source
from reasoning_env.sources.modules import TaskModuleError
from reasoning_env.sources.score_function import FunctionSource
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library
from reasoning_env.workers.protocol import (
    DISCONNECTED_STATUS,
    ORDER,
    OUT_OF_MEMORY_STATUS,
    Frame,
    Role,
    encode_frame,
    read_frame,
)
from reasoning_env.workers.sandbox import Restrictions, Sandbox, code_paths, enter_worker, prepare

SLICE_S = 0.05
"""Seconds for which a verifier worker scores one group. Then the next group gets a turn. Without turns, a group of 8
answers waited 61 s for four groups of 4,000 slow answers each; with turns, the group waited 1.1 s."""

EXIT_GRACE_S = 1.0
"""Seconds that a worker gets to exit after it closed its socket. A dying process needs only milliseconds for this, even
on a busy machine."""

MIN_GROWTH_MB = 128
"""A worker that grew by fewer megabytes is not to blame if the kernel kills it for lack of memory, because other
processes probably took the memory."""


def freeze_imports() -> None:
    """Turn on garbage collection, but only for new objects, so that workers share the memory of existing objects."""
    # Do not collect first: this would take 0.13 s and free only 3,000 of 240,000 objects.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def serve_generator(source: Source, sock: socket.socket) -> None:
    """Until the socket closes, reply to requests to generate a problem, or to check or describe parameters."""
    while (request := read_frame(sock)) is not None:
        if "check" in request.header:
            faults = [source.check(*checked) for checked in request.header["check"]]
            _reply(sock, request, {"faults": [fault for fault in faults if fault]})
        elif "describe" in request.header:
            _reply(sock, request, {"described": {task: source.describe(task) for task in request.header["describe"]}})
        else:
            _generate(source, sock, request)


def _generate(source: Source, sock: socket.socket, request: Frame) -> None:
    started = time.perf_counter()
    try:
        generated = source.generate(ProblemRequest(**request.header["generate"]))
    except MemoryError:
        _exit_out_of_memory()
    except BaseException as error:
        _reply(sock, request, {"error": _describe(error)})
        return
    fields = {**vars(generated), "generation_s": time.perf_counter() - started}
    metadata = fields.pop("metadata_json").encode()
    entry = fields.pop("entry")
    _reply(sock, request, {**fields, "metadata_bytes": len(metadata)}, metadata + entry)


def serve_verifier(source: Source, sock: socket.socket, explain: Callable[[BaseException], str]) -> None:
    """For each score request until the socket closes, send a reply when the task is built, and a reply per answer.

    After SLICE_S seconds, the remaining answers get no reply, and the pool sends them again later. The string that
    `explain` returns is appended to a verifier's error message.
    """
    while (request := read_frame(sock)) is not None:
        header = request.header
        try:
            problem = header["task"], header["params"], request.blob, header["level"]
            scorer = source.scorer(*problem, plainly=header["plainly"])
        except MemoryError:
            _exit_out_of_memory()
        except BaseException as error:
            _reply(sock, request, {"fault": _describe(error)})
            continue
        _reply(sock, request, {"ready": True})
        began = time.perf_counter()
        for position, answer in enumerate(header["answers"]):
            verdict = _score_answer(scorer, answer, explain)
            turn_over = time.perf_counter() - began >= SLICE_S
            _reply(sock, request, {"position": position, "turn_over": turn_over, **verdict})
            if turn_over:
                break


def _score_answer(scorer: Answers, answer: str, explain: Callable[[BaseException], str]) -> dict[str, object]:
    started = time.perf_counter()
    score = 0.0
    reason = "scored"
    details: dict[str, object] = {}
    try:
        score = scorer.score(answer)
        details["frames"] = list(getattr(scorer, "frames", ()))
        details["parts"] = getattr(scorer, "parts", None)
    except MemoryError:
        _exit_out_of_memory()
    except BaseException as error:
        reason = "verifier_error"
        refused = explain(error)
        details["error"] = _describe(error) + refused
        details["refused"] = bool(refused)
    return {"score": score, "reason": reason, "scoring_s": time.perf_counter() - started, **details}


def _exit_out_of_memory() -> NoReturn:
    """End this worker, because its state may be corrupt after a MemoryError. The pool starts a new worker."""
    os._exit(OUT_OF_MEMORY_STATUS)


def _reply(sock: socket.socket, request: Frame, header: Mapping[str, object], blob: bytes = b"") -> None:
    sock.sendall(encode_frame({"id": request.header["id"], **header}, blob))


def _describe(error: BaseException) -> str:
    # The limit of a verifier's reply leaves room for 300 characters, even if JSON needs twelve bytes for each.
    return error_text(error)[:300]


class Forker:
    """Forks and kills workers on orders from a socket, and cleans up after workers that ended."""

    def __init__(
        self,
        orders: socket.socket,
        source: Source,
        faster: FasterGenerators | None,
        sandbox: Sandbox,
        directory: str,
        niceness: int,
    ) -> None:
        self._orders = orders
        self._source = source
        self._faster = faster
        self._sandbox = sandbox
        self._directory = directory
        self._niceness = niceness
        self._forked = 0
        self._folders: dict[int, str] = {}
        """Folders of running workers, by process id."""
        self._kills_before: dict[int, int] = {}
        """For each running worker, by process id: what `kills_for_memory` returned when the worker was forked."""
        self._ends: dict[int, int] = {}
        """Exit codes of workers that ended and have no replacement yet, by process id."""

    def run(self) -> None:
        """Fork and kill workers, as the orders from the socket say, until the socket closes."""
        while True:
            # A worker can be waited for only some time after it closed its socket. Without the timeout, a worker that
            # ends after the last order would stay a zombie.
            readable, _, _ = select.select([self._orders], [], [], 1.0)
            for pid in list(self._folders):
                if _has_ended(pid):
                    self._clean_up(pid)
            if not readable:
                continue
            order, descriptors, _, _ = socket.recv_fds(self._orders, ORDER.size, 1)
            if not order:
                return
            ended, role, has_closed = ORDER.unpack(order)
            if ended in self._folders:
                self._clean_up(ended, has_closed=has_closed)
            if descriptors:
                self._spawn(Role(role), descriptors[0], self._ends.pop(ended, None))

    def kill_all(self) -> None:
        for pid in list(self._folders):
            self._clean_up(pid)

    def _spawn(self, role: Role, descriptor: int, replaced_code: int | None) -> None:
        self._forked += 1
        folder = os.path.join(self._directory, str(self._forked))
        kills_before = kills_for_memory()
        try:
            pid = os.fork()
        except OSError:  # the pool sees a closed socket and retries
            os.close(descriptor)
            return
        if pid == 0:
            self._become_worker(role, descriptor, folder, replaced_code)
        os.close(descriptor)
        self._folders[pid] = folder
        self._kills_before[pid] = kills_before

    def _clean_up(self, pid: int, *, has_closed: bool = False) -> None:
        """Kill a worker and its process group, store its exit code, and remove its folder.

        A worker that closed its socket (`has_closed`) first gets EXIT_GRACE_S seconds to exit. If it still runs then,
        the stored code is DISCONNECTED_STATUS.
        """
        lives_on = has_closed and not _ends_soon(pid)
        kills = kills_for_memory() - self._kills_before.pop(pid) if _has_ended(pid) else 0
        # Before `waitpid`, no other process can get the worker's id. The worker's process group has the same id.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        code = DISCONNECTED_STATUS if lives_on else os.waitstatus_to_exitcode(status)
        # A forked worker's peak memory includes the memory that this process has at the time of the fork.
        grown_mb = usage.ru_maxrss - resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        self._ends[pid] = detect_out_of_memory(code, grown_mb, kills)
        shutil.rmtree(self._folders.pop(pid), ignore_errors=True)

    def _become_worker(self, role: Role, descriptor: int, directory: str, replaced_code: int | None) -> None:
        """Run the worker in this forked process, then exit. This call never returns.

        The worker's first message has the worker's process id, and the exit code of the replaced worker. If the sandbox
        cannot be applied, the first message has the error instead.
        """
        status = 1
        try:
            sock = socket.socket(fileno=descriptor)
            try:
                enter_worker(directory, self._niceness, {descriptor, *self._sandbox.descriptors})
                self._sandbox.enter(is_verifier=role is Role.VERIFIER)
            except OSError as error:
                sock.sendall(encode_frame({"error": _describe(error)}))
                return
            if role is Role.GENERATOR and self._faster is not None:
                self._faster.install()
            sock.sendall(encode_frame({"pid": os.getpid(), "replaced_code": replaced_code}))
            if role is Role.GENERATOR:
                serve_generator(self._source, sock)
            else:
                serve_verifier(self._source, sock, self._sandbox.restrictions.explain)
            status = 0
        except ConnectionError:
            status = 0
        finally:
            os._exit(status)


def detect_out_of_memory(code: int, grown_mb: int, kills: int) -> int:
    """Return OUT_OF_MEMORY_STATUS if a worker probably used so much memory that the kernel killed it; else `code`.

    `kills` counts the processes that the kernel killed for lack of memory while the worker lived.
    """
    return OUT_OF_MEMORY_STATUS if code == -signal.SIGKILL and kills > 0 and grown_mb >= MIN_GROWTH_MB else code


def kills_for_memory() -> int:
    """Return how many processes the kernel has killed for lack of memory; 0 if the system does not report it."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as counters:
        for line in counters:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def _has_ended(pid: int) -> bool:
    """Return True if a child of this process has ended and can be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ends_soon(pid: int) -> bool:
    """Wait for the end of a child process. Return True when it has ended, and False after EXIT_GRACE_S seconds."""
    deadline = time.monotonic() + EXIT_GRACE_S
    while not _has_ended(pid):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True


def run_fork_server(socket_fd: int, start: dict[str, Any]) -> None:
    """Import the library, read the settings, describe the library, and fork workers until the socket closes."""
    gc.disable()  # collections would take a fifth of the import time
    orders = socket.socket(fileno=socket_fd)
    try:
        _serve_orders(orders, start)
    except ConnectionError:
        pass  # the main process has ended
    finally:
        shutil.rmtree(start["directory"], ignore_errors=True)


def _serve_orders(orders: socket.socket, start: dict[str, Any]) -> None:
    sys.path.extend(path for path in start["import_path"] if path not in sys.path)
    function = start["score_function"]
    try:
        library = None if function is not None else Library(start["checkout"])
    except BaseException as error:
        orders.sendall(encode_frame({"error": _describe(error)}))
        # Read the settings, although they are not used. Otherwise the pool cannot send them and never reads the error.
        read_frame(orders)
        return
    frame = read_frame(orders)
    if frame is None:  # the main process ended before it sent settings
        return
    settings = frame.header

    def announce(entry: str) -> None:
        orders.sendall(encode_frame({"importing": entry}))

    before_mb = address_space_mb()
    try:
        if library is None:
            loaded = load_function(function, settings["folder"], announce)
        else:
            loaded = load_library(library, settings, announce)
    except TaskModuleError as error:
        orders.sendall(encode_frame({"user_code": str(error)}))
        return
    # Add the size of the user's modules to the limit: importing torch reserves 3,000 MB of mostly unused addresses.
    grown_mb = address_space_mb() - before_mb if function is not None or settings["task_modules"] else 0
    try:
        sandbox = prepare(
            settings["worker_memory_mb"] + grown_mb,
            [*code_paths(), *loaded.read_paths],
            threads=loaded.threads,
            filtered=settings["sandbox_verifiers"],
            at_start=None if settings["at_start"] is None else Restrictions(**settings["at_start"]),
        )
    except OSError as error:
        orders.sendall(encode_frame({"sandbox_error": _describe(error)}))
        return
    orders.sendall(encode_frame({**loaded.hello, "restrictions": vars(sandbox.restrictions)}))
    freeze_imports()  # all workers share the existing objects
    source = loaded.source
    if settings["source_wrapper"] is not None:
        module, _, function = settings["source_wrapper"].partition(":")
        source = getattr(importlib.import_module(module), function)(source)
    forker = Forker(orders, source, loaded.faster, sandbox, start["directory"], settings["niceness"])
    try:
        forker.run()
    finally:
        forker.kill_all()


@dataclass(frozen=True)
class Loaded:
    """The source of problems, its description for the pool (`hello`), and what verifier workers may read and do."""

    source: Source
    hello: Mapping[str, object]
    read_paths: Sequence[str]
    faster: FasterGenerators | None = None
    threads: bool = False


def address_space_mb() -> int:
    """Return the size of this process's address space in megabytes; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize() >> 20


def load_library(library: Library, settings: dict[str, Any], announce: Callable[[str], None]) -> Loaded:
    """Import the user's task modules, and return the library with their tasks. Raises TaskModuleError."""
    source = library.add_modules(settings["task_modules"], settings["folder"], announce)
    library.rewards = settings["rewards"]
    faster = FasterGenerators(library.module, library.tasks) if settings["fast"] else None
    hello = {
        "version": library.version,
        "path": library.path,
        "tasks": {name: vars(task) for name, task in source.tasks.items()},
        "warnings": library.warnings + (faster.warnings if faster is not None else []),
        "system_prompt": library.system_prompt,
    }
    return Loaded(source, hello, library.read_paths, faster)


def load_function(function: dict[str, Any], folder: str, announce: Callable[[str], None]) -> Loaded:
    """Import the user's score function and return it as a source without tasks. Raises TaskModuleError."""
    announce(function["name"].rpartition(":")[0])
    source = FunctionSource(function["name"], folder)
    hello: dict[str, object] = {
        "version": "",
        "path": "",
        "tasks": {},
        "warnings": [],
        "system_prompt": "",
        "parameters": source.parameters,
    }
    return Loaded(source, hello, [*source.read_paths, *function["read"]], threads=function["threads"])


if __name__ == "__main__":
    run_fork_server(int(sys.argv[1]), json.loads(sys.argv[2]))
