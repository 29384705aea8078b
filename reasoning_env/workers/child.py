"""The other side of the pool: a fork server, which imports the library once, and its workers.

Started as a script in a fresh interpreter with an emptied environment: `python child.py <socket fd> <json place>`. The
place says what to import, and which folder to use. Settings come over the socket: the main process need not know them
yet, and the library is imported meanwhile.
The fork server has one thread, so forking it is safe, and it is the parent of all workers, so only it kills and reaps
them: a process id can never have passed to somebody else. When its socket closes (the main process ended, in whatever
way) it kills every worker, removes their folders and exits.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from types import ModuleType
from typing import Any

if not __package__:
    # Run as a script: the package is found by its folder, which need not be on any path. The script's own folder leaves
    # the path, so that nothing in it can shadow a module that the library wants.
    del sys.path[0]
    _package = sys.modules["reasoning_env"] = ModuleType("reasoning_env")
    _package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

from reasoning_env.library_facts import SLOW_TO_BUILD
from reasoning_env.verifiers import Scorer
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library
from reasoning_env.workers.protocol import ORDER, Frame, Order, Role, encode_frame, read_frame
from reasoning_env.workers.sandbox import (
    Sandbox,
    WorkerLimits,
    code_paths,
    enter_worker,
    lower_group_priority,
    no_sandbox,
    prepare,
)

PRIORITY_PAUSE_S = 0.1
"""How often the kernel takes a change of a group's priority."""
MEMORY_EXHAUSTED = 77
"""Exit status of a worker that ran out of memory: its state cannot be trusted any more."""


def calm_garbage_collector() -> None:
    """Leave what exists now out of later collections, so that its pages stay shared; collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def serve_generator(library: Library, sock: socket.socket) -> None:
    """Answer requests to generate and to check parameters until the socket closes."""
    while (request := read_frame(sock)) is not None:
        if "check" in request.header:
            faults = [library.check(*checked) for checked in request.header["check"]]
            _reply(sock, request, {"faults": [fault for fault in faults if fault]})
        else:
            _generate(library, sock, request)


def _generate(library: Library, sock: socket.socket, request: Frame) -> None:
    started = time.perf_counter()
    try:
        made = library.generate(**request.header["generate"])
    except MemoryError:
        os._exit(MEMORY_EXHAUSTED)
    except BaseException as error:
        _reply(sock, request, {"error": _describe(error)})
        return
    fields = {**vars(made), "generation_s": time.perf_counter() - started}
    metadata, entry = fields.pop("metadata_json").encode(), fields.pop("entry")
    _reply(sock, request, {**fields, "metadata_bytes": len(metadata)}, metadata + entry)


def serve_verifier(library: Library, sock: socket.socket) -> None:
    """Answer score requests until the socket closes, with one frame for each answer, in order.

    A request may ask to be told when the task is built, which can take longer than scoring, before the first answer.
    """
    while (request := read_frame(sock)) is not None:
        header = request.header
        try:
            task, params, level = header["task"], header["params"], header["level"]
            scorer = library.scorer(task, params, request.blob, level, plainly=header["plainly"])
        except MemoryError:
            os._exit(MEMORY_EXHAUSTED)
        except BaseException as error:
            _reply(sock, request, {"fault": _describe(error)})
            continue
        if header["announce"]:
            _reply(sock, request, {"ready": True})
        for position, answer in enumerate(header["answers"]):
            _reply(sock, request, {"position": position, **_score_answer(scorer, answer)})


def _score_answer(scorer: Scorer, answer: str) -> dict[str, Any]:
    started = time.perf_counter()
    score, reason = 0.0, "scored"
    try:
        score = scorer.score(answer)
    except MemoryError:
        os._exit(MEMORY_EXHAUSTED)
    except BaseException:
        reason = "verifier_error"
    return {"score": score, "reason": reason, "scoring_s": time.perf_counter() - started}


def _reply(sock: socket.socket, request: Frame, header: dict[str, Any], blob: bytes = b"") -> None:
    sock.sendall(encode_frame({"id": request.header["id"], **header}, blob))


def _describe(error: BaseException) -> str:
    # Cut so that it fits into a verifier worker's frame even when JSON needs twelve bytes for each character.
    return f"{type(error).__name__}: {error}"[:300]


class Forker:
    """Forks, kills and reaps workers on the orders that arrive on a socket."""

    def __init__(
        self,
        orders: socket.socket,
        library: Library,
        faster: FasterGenerators | None,
        sandbox: Sandbox,
        directory: str,
        limits: WorkerLimits,
    ) -> None:
        self._orders = orders
        self._library = library
        self._faster = faster
        self._sandbox = sandbox
        self._directory = directory
        self._limits = limits
        self._pids: dict[int, int] = {}
        """Process ids of the workers that have not been reaped, by their numbers."""
        self._to_lower: set[int] = set()
        """Process ids of the workers whose priority is still to be lowered."""

    def run(self) -> None:
        """Obey until the socket closes."""
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            pause_s = PRIORITY_PAUSE_S if self._to_lower else None
            readable, _, _ = select.select([self._orders.fileno(), wake], [], [], pause_s)
            self._to_lower -= {pid for pid in self._to_lower if lower_group_priority(pid, self._limits.niceness)}
            if wake in readable:
                os.read(wake, 4096)
                self._reap()
            if self._orders.fileno() in readable and not self._obey():
                return

    def kill_all(self) -> None:
        for number in list(self._pids):
            self._kill(number)
        for pid in self._pids.values():
            os.waitpid(pid, 0)

    def _obey(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._orders, ORDER.size, 1)
        if len(data) < ORDER.size:
            return False
        order, role, number = ORDER.unpack(data)
        if order == Order.SPAWN:
            self._spawn(number, Role(role), descriptors[0])
        elif order == Order.KILL:
            self._kill(number)
        else:
            self._build(SLOW_TO_BUILD[number])
        return True

    def _build(self, task: str) -> None:
        """Build a task for all workers to come; where that fails, they say so when they are asked."""
        with contextlib.suppress(Exception):
            self._library.build(task)
            calm_garbage_collector()

    def _spawn(self, number: int, role: Role, descriptor: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_worker(role, descriptor, os.path.join(self._directory, str(number)))
        os.close(descriptor)
        self._pids[number] = pid
        self._to_lower.add(pid)
        self._report({"event": "forked", "worker": number, "pid": pid})

    def _kill(self, number: int) -> None:
        pid = self._pids.get(number)
        if pid is not None:
            # Its group too, for processes that a verifier has started; it leads one from its first moments on.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            self._kill(number)  # what it has started; until it is waited for, its process id is nobody else's
            _, status = os.waitpid(pid, 0)
            del self._pids[number]
            self._to_lower.discard(pid)
            shutil.rmtree(os.path.join(self._directory, str(number)), ignore_errors=True)
            self._report({"event": "exited", "worker": number, "status": os.waitstatus_to_exitcode(status)})

    def _become_worker(self, role: Role, descriptor: int, directory: str) -> None:
        """Run a worker to its end; never returns into the fork server's code."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            enter_worker(directory, self._limits, keep_fd=descriptor)
            sock = socket.socket(fileno=descriptor)
            if role is Role.GENERATOR:
                if self._faster is not None:
                    self._faster.install()
                serve_generator(self._library, sock)
            else:
                self._sandbox.enter()
                serve_verifier(self._library, sock)
            status = 0
        except ConnectionError:
            status = 0
        finally:
            os._exit(status)

    def _report(self, event: dict[str, Any]) -> None:
        self._orders.sendall(encode_frame(event))


def run_fork_server(socket_fd: int, place: dict[str, Any]) -> None:
    """Import the library, read the settings, tell of both, and fork workers until the socket closes."""
    orders = socket.socket(fileno=socket_fd)
    try:
        _serve_orders(orders, place)
    except ConnectionError:
        pass  # the main process is gone
    finally:
        shutil.rmtree(place["directory"], ignore_errors=True)


def _serve_orders(orders: socket.socket, place: dict[str, Any]) -> None:
    sys.path.extend(path for path in place["import_path"] if path not in sys.path)
    try:
        library = Library(place["checkout"])
    except BaseException as error:
        orders.sendall(encode_frame({"event": "failed", "error": _describe(error)}))
        return
    frame = read_frame(orders)
    if frame is None:  # the main process ended before it got so far
        return
    settings = frame.header
    library.strict, library.lenient = settings["strict_rewards"], settings["lenient_answers"]
    faster = FasterGenerators(library.module, library.tasks) if settings["fast_generators"] else None
    sandbox = prepare([*code_paths(), library.path]) if settings["sandbox_verifiers"] else no_sandbox()
    hello = {
        "event": "hello",
        "version": library.version,
        "path": library.path,
        "tasks": library.tasks,
        "warnings": library.warnings + (faster.warnings if faster is not None else []),
        "adjustable": library.adjustable,
        "system_prompt": library.system_prompt,
        "sandbox": sandbox.describe(),
    }
    orders.sendall(encode_frame(hello))
    calm_garbage_collector()  # what exists now is shared with every worker
    limits = WorkerLimits(settings["memory_mb"], settings["file_mb"], settings["niceness"])
    forker = Forker(orders, library, faster, sandbox, place["directory"], limits)
    try:
        forker.run()
    finally:
        forker.kill_all()


if __name__ == "__main__":
    run_fork_server(int(sys.argv[1]), json.loads(sys.argv[2]))
