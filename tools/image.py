"""Build the Dockerfile's images without Docker, and try them: `python -m tools.image build`, then `try`.

Needs Linux, root, and the packages `mmdebstrap` and `util-linux` of Debian.

- `build [--target NAME]` makes the root folder of each stage in `build/image/NAME`, by the steps of the Dockerfile:
  `debian:SUITE-slim` is made of Debian's packages with `mmdebstrap`, RUN runs under `chroot`, and COPY copies what
  `.dockerignore` leaves. RUN uses the machine's name server, certificates and pip index.
- `try` runs the image `judge` as `docker run --read-only --tmpfs /tmp --cap-drop ALL
  --security-opt no-new-privileges` does: the Dockerfile's user, entry point and command in process, mount and network
  namespaces of their own. It asks for verdicts, prints figures, and exits with 1 after a finding.
- `run [--target NAME] WORD ...` runs one command in an image in the same way.

What Docker does beside this is missing: cgroups, user namespaces, image layers, and Docker's seccomp profile unless
`--seccomp FILE` names it.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning_env.judging.client import TOKEN_VARIABLE
from reasoning_env.session import Session

from .dockerfile import (
    DEFAULT_PATH,
    Container,
    Stage,
    Step,
    container_of,
    is_ignored,
    needed_stages,
    read_dockerfile,
    read_patterns,
)

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "image"
STAGES = read_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))
DEFAULT_STAGE = list(STAGES)[-1]
LENT_FILES = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
LENT_VARIABLES = re.compile("(pip_(index_url|extra_index_url|cert|default_timeout)|(https?|no)_proxy)", re.IGNORECASE)
"""Files and variables of this machine by which RUN reaches the indexes of packages; no image keeps them."""
SLIM = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
"""Folders that `debian:SUITE-slim` leaves out."""
COMPILERS = frozenset({"cc", "gcc", "g++", "c++", "clang", "as", "ld", "make", "pip", "pip3"})
START_TIMEOUT_S = 120.0
BYTES_PER_MB = 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns 1 after a finding, or the status of the command of `run`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="make the root folders")
    build.add_argument("--target", action="append", choices=STAGES, help=f"default: {DEFAULT_STAGE}")
    build.add_argument("--mirror", help="Debian's index (default: mmdebstrap's)")
    attempt = commands.add_parser("try", help="run the judge and ask for verdicts")
    single = commands.add_parser("run", help="run one command in an image")
    single.add_argument("--target", choices=STAGES, default=DEFAULT_STAGE, help="default: %(default)s")
    single.add_argument("--entrypoint", help="in place of the Dockerfile's")
    single.add_argument("--writable", metavar="FOLDER", type=Path, help="a folder of this machine as /work")
    single.add_argument(
        "words", nargs=argparse.REMAINDER, help="words after the entry point (default: the Dockerfile's)"
    )
    for parsed in (attempt, single):
        parsed.add_argument("--seccomp", type=Path, metavar="FILE", help="Docker's seccomp profile, as JSON")
        parsed.add_argument("--own-network", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.command == "build":
        for name in needed_stages(STAGES, options.target or [DEFAULT_STAGE]):
            build_stage(STAGES[name], options.mirror)
        return 0
    if not options.own_network:
        command, *others = sys.argv[1:] if argv is None else argv
        again = [sys.executable, "-m", "tools.image", command, "--own-network", *others]
        return subprocess.run(["unshare", "--net", *again], cwd=ROOT, check=False).returncode
    start_loopback()
    if options.command == "try":
        return try_judge(options.seccomp)
    container = container_of(STAGES, options.target)
    entrypoint = shlex.split(options.entrypoint) if options.entrypoint else container.entrypoint
    given = options.words[1:] if options.words[:1] == ["--"] else options.words
    words = [*entrypoint, *(given or container.command)]
    entered = enter(options.target, words, seccomp=options.seccomp, writable=options.writable)
    return subprocess.run(entered, check=False).returncode


# ------------------------------------------------------------------ build


def build_stage(stage: Stage, mirror: str | None) -> None:
    """Make the root folder of a stage from that of its base; print its size."""
    root = FOLDER / stage.name
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    if stage.base in STAGES:
        subprocess.run(["cp", "-a", FOLDER / stage.base, root], check=True)
        container = container_of(STAGES, stage.base)
    else:
        make_debian(stage.base, root, mirror)
        container = Container({"PATH": DEFAULT_PATH})
    for step in stage.steps:
        print(f"{stage.name}, line {step.line}: {step.keyword} {step.text}", flush=True)
        container = container.after(step)
        apply(step, root, container)
    print(f"{stage.name}: {size_mb(root):.0f} MB", flush=True)


def make_debian(image: str, root: Path, mirror: str | None) -> None:
    """Make the root folder of `debian:SUITE-slim` from Debian's packages."""
    match = re.fullmatch("debian:([a-z]+)-slim", image)
    if match is None:
        raise SystemExit(f"only images debian:SUITE-slim can be made without Docker; the Dockerfile has {image}")
    command = ["mmdebstrap", "--variant=minbase", *(f"--dpkgopt=path-exclude={path}" for path in SLIM)]
    subprocess.run([*command, match[1], root, *([mirror] if mirror else [])], check=True)


def apply(step: Step, root: Path, container: Container) -> None:
    """Do a step in a root folder."""
    match step.keyword:
        case "RUN":
            if container.user != "0:0":
                raise SystemExit(f"line {step.line}: RUN after USER is not supported here")
            lent = {name: value for name, value in os.environ.items() if LENT_VARIABLES.fullmatch(name)}
            setup = ['mount -t proc proc "$0/proc"', 'mount --rbind /dev "$0/dev"']
            for path in LENT_FILES:
                if Path(path).exists() and (path == LENT_FILES[0] or (root / path[1:]).exists()):
                    setup.append(f'test -e "$0{path}" || : > "$0{path}"; mount --bind {path} "$0{path}"')
            variables = [f"{name}={value}" for name, value in {**lent, **container.environment}.items()]
            inside = ["chroot", str(root), "env", "-i", f"--chdir={container.directory}", *variables]
            script = "; ".join(["set -e", *setup, 'exec "$@"'])
            namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            subprocess.run([*namespaces, "sh", "-c", script, root, *inside, "/bin/sh", "-c", step.text], check=True)
        case "WORKDIR":
            (root / step.text[1:]).mkdir(parents=True, exist_ok=True)
        case "COPY":
            *sources, destination = step.words()
            target = root / os.path.join(container.directory, destination)[1:]
            for source in sources:
                copy(source, step.options.get("from"), target, into=destination.endswith("/") or len(sources) > 1)


def copy(source: str, stage: str | None, target: Path, *, into: bool) -> None:
    """Copy a file, or what a folder holds, from a stage or from this checkout without what `.dockerignore` names."""
    origin = FOLDER / stage / source.lstrip("/") if stage else ROOT / source
    patterns = [] if stage else read_patterns((ROOT / ".dockerignore").read_text(encoding="utf-8"))

    def ignored(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if is_ignored(Path(folder, name).relative_to(ROOT), patterns)}

    if not stage and is_ignored(Path(source), patterns):
        raise SystemExit(f"the Dockerfile copies {source}, which .dockerignore leaves out")
    if origin.is_dir():
        skip = None if stage else ignored
        shutil.copytree(origin, target, symlinks=True, dirs_exist_ok=True, ignore=skip)
    else:
        target = target / origin.name if into else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(origin, target)


def size_mb(root: Path) -> float:
    """Return the bytes of all files below a root folder in megabytes (10^6), each file once."""
    files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            files[status.st_ino] = status.st_size
    return sum(files.values()) / BYTES_PER_MB


# ------------------------------------------------------------------ run

DEVICES = ("null", "zero", "full", "random", "urandom")
ENTER = """
set -e
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"
for device in {devices}; do : > "$0/dev/$device"; mount --bind /dev/$device "$0/dev/$device"; done
mkdir -m 1777 "$0/dev/shm"
mount -t proc proc "$0/proc"
{more}
exec "$@"
"""


def enter(
    target: str,
    words: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    seccomp: Path | None = None,
    writable: Path | None = None,
) -> list[str]:
    """Return the command that runs `words` in an image: read-only, as the image's user, without privileges.

    `words` are process 1 of their own process namespace. `writable` becomes /work. `seccomp` is a profile of Docker.
    """
    root, container = FOLDER / target, container_of(STAGES, target)
    if not root.is_dir():
        raise SystemExit(f"{target} is not built yet: python -m tools.image build --target {target}")
    more = []
    if writable:
        more.append(f"chown {container.user} {shlex.quote(str(writable))}")
        more.append(f'mount --bind {shlex.quote(str(writable))} "$0/work"')
    filtered: list[str] = []
    if seccomp:
        from tools.seccomp_profile import under  # needs libseccomp, which nothing else does

        filtered = under(seccomp)
    user, group = container.user.split(":")
    unprivileged = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    unprivileged += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    variables = [f"{name}={value}" for name, value in {**container.environment, **(environment or {})}.items()]
    setup = ENTER.format(devices=" ".join(DEVICES), more="\n".join(more))
    isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", setup, str(root)]
    within = ["chroot", str(root), *unprivileged, "env", "-i", f"--chdir={container.directory}", *variables]
    return [*isolated, *within, *filtered, *words]


def start_loopback() -> None:
    """Start the loopback device of a new network namespace: 127.0.0.1 works, and nothing else."""
    with socket.socket() as any_socket:
        up = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


# ------------------------------------------------------------------ try

HOSTILE = (
    "__import__('os').system('touch /tmp/owned')",
    "(lambda f: f(f))(lambda f: f(f))",
    "[" * 20_000,
    "9**9**9**9",
    "<answer>1</answer>" * 500,
)
TASKS = ("gcd", "n_queens", "countdown", "simple_integration", "codeio")
"""Tasks whose verifiers evaluate text, or do unbounded work, in the library."""
OUTSIDE = """
import json, os
def attempt(act):
    try: act()
    except OSError as error: return error.strerror
    return "works"
facts = {"user": os.getuid(), "root folder": attempt(lambda: open("/etc/owned", "w")),
         "code": attempt(lambda: open("/opt/environment/owned", "w")), "owned": os.path.exists("/tmp/owned")}
print(json.dumps(facts))
"""


@dataclass(frozen=True)
class Asked:
    """A problem, by its reference, and its right answer."""

    reference: str
    answer: str


async def _problems() -> list[Asked]:
    async with Session(tasks=list(TASKS), seed=1, exclude_gameable=False, num_generators=1, num_verifiers=1) as session:
        problems: dict[str, Asked] = {}
        while problems.keys() != set(TASKS):
            problem = await session.next()
            if problem.answer is not None:
                problems[problem.spec.task] = Asked(problem.reference, problem.answer)
            session.done(problem)
    return [problems[task] for task in TASKS]


def try_judge(seccomp: Path | None) -> int:
    """Run the judge by its default command and ask for verdicts; print figures and findings. Returns 1 for findings."""
    container = container_of(STAGES, "judge")
    root = FOLDER / "judge"
    problems = asyncio.run(_problems())
    words = [*container.entrypoint, *container.command]
    command = enter("judge", words, environment={TOKEN_VARIABLE: "secret"}, seccomp=seccomp)
    begin = time.monotonic()
    judge = subprocess.Popen(command)
    findings: list[str] = []
    try:
        wait_for_health(judge)
        print(f"{time.monotonic() - begin:.1f} s from the start to the first /health")
        (first,) = children(judge.pid)
        health = inside(first, container.health)
        if health.returncode != 0:
            findings.append(f"the health check says {health.stderr.strip()}")
        for problem in problems:
            texts = [f"<answer>{text}</answer>" for text in (problem.answer, "no idea", *HOSTILE)]
            right, *wrong = (verdict["score"] for verdict in ask(problem.reference, texts))
            print(f"{problem.reference.split(':')[0]}: right {right:g}, wrong and hostile {wrong}")
            if right < 1 or any(score > 0.05 for score in wrong):
                findings.append(f"{problem.reference}: {right} for the right answer, {wrong} for others")
        facts = json.loads(inside(first, ["python", "-c", OUTSIDE]).stdout)
        print(f"inside: {facts}")
        if facts["owned"] or facts["user"] == 0 or "works" in facts.values():
            findings.append(f"something is writable, owned or root: {facts}")
        print(f"{memory_mb(first):.0f} MB of memory in {len(tree(first))} processes, after judging")
        health_code = inside(first, container.health).returncode
        if health_code != 0:
            findings.append("the health check fails after hostile answers")
        begin = time.monotonic()
        os.kill(first, signal.SIGTERM)
        status = judge.wait(30)
        print(f"{time.monotonic() - begin:.1f} s from SIGTERM to the end, with status {status}")
        if status != 0:
            findings.append(f"the judge ends with status {status}")
    finally:
        judge.kill()
    compilers = sorted(path.name for path in root.glob("**/bin/*") if path.name in COMPILERS)
    if compilers:
        findings.append(f"the image holds {', '.join(compilers)}")
    print(f"{size_mb(root):.0f} MB in all files of the image")
    print(*findings, f"{len(findings)} findings", sep="\n")
    return int(bool(findings))


def ask(reference: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the judge's verdicts on completions of a problem."""
    body = json.dumps({"ref": reference, "texts": texts}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
    request = urllib.request.Request("http://127.0.0.1:8400/score", body, headers)
    with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as reply:
        return list(json.load(reply)["verdicts"])


def wait_for_health(judge: subprocess.Popen[bytes]) -> None:
    """Wait until `/health` answers 200. Raises SystemExit when the judge ends, or does not answer in time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and judge.poll() is None:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8400/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"the judge does not answer /health (its status: {judge.poll()})")


def inside(process: int, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the namespaces, and with the user and variables, of a process; as `docker exec` does."""
    status = Path(f"/proc/{process}/status").read_text()
    user = re.findall(r"Uid:\s+(\d+)", status)[0]
    variables = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")[:-1]
    namespaces = ["nsenter", f"--target={process}", "--mount", "--pid", "--root", "--wd"]
    unprivileged = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    command = [*namespaces, *unprivileged, "env", "-i", *variables, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def children(process: int) -> list[int]:
    """Return the children of a process."""
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def tree(process: int) -> list[int]:
    """Return a process and all processes below it."""
    return functools.reduce(lambda found, child: found + tree(child), children(process), [process])


def memory_mb(process: int) -> float:
    """Return the memory of a process and all below it in megabytes (10^6); shared pages are counted once."""
    sizes = [re.findall(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M) for pid in tree(process)]
    return sum(int(size) for found in sizes for size in found) * 1024 / BYTES_PER_MB


if __name__ == "__main__":
    sys.exit(main())
