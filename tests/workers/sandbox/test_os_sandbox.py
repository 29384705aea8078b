"""Every probe runs in a process of its own, forked from a fresh interpreter, behind some of the layers or none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from .probes import ALL, BOTH, HARMLESS, HOOK, HOSTILE, LANDLOCK, PROBES, SECCOMP, Run, run_probes, run_python

NOBODY = 65534

Runner = Callable[..., Run]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """All probes behind the named layers, run once for each set of them and skipped where one does not hold."""
    runs: dict[tuple[str, ...], Run] = {}

    def behind(*layers: str) -> Run:
        if layers not in runs:
            runs[layers] = run_probes(layers, tmp_path_factory.mktemp("sandbox"))
        for layer in layers:
            if layer in runs[layers].missing:
                pytest.skip(f"{layer}: {runs[layers].missing[layer]}")
        return runs[layers]

    return behind


@cache
def _prepared(changes: str) -> dict[str, Any]:
    """What a fresh interpreter prepares after the changes were made to it."""
    script = (
        "import json, os, signal, sys, time\nfrom reasoning_env.workers.sandbox import os_sandbox as sandbox\n"
        f"{changes}\n"
        "made = sandbox.prepare(sandbox.code_paths())\n"
        "print(json.dumps([[layer.name for layer in made.layers], made.missing, made.describe()]))"
    )
    standing, missing, line = json.loads(run_python(script))
    return {"standing": standing, "missing": missing, "line": line}


on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the probes are written for Linux")


@on_linux
def test_without_layers_every_hostile_probe_gets_through(behind: Runner) -> None:
    run = behind()
    assert {name: run.outcomes[name] for name in (*PROBES, "start a thread") if run.outcomes[name] != "ran"} == {}


@on_linux
@pytest.mark.parametrize("layer", BOTH)
def test_each_layer_of_the_operating_system_refuses_alone(behind: Runner, layer: str) -> None:
    run = behind("no_new_privs", layer)
    refused = ("PermissionError", "ValueError: not allowed to raise")
    names = [name for name, probe in HOSTILE.items() if layer in probe.layers]
    assert {name: run.outcomes[name] for name in names if not run.outcomes[name].startswith(refused)} == {}
    assert [name for name in names if run.refused[name] is not None] == []


def test_no_thread_starts_behind_seccomp(behind: Runner) -> None:
    assert "can't start new thread" in behind("no_new_privs", SECCOMP).outcomes["start a thread"]


def test_audit_hook_refuses_alone_and_remembers_the_event(behind: Runner) -> None:
    run = behind(HOOK)
    expected = {name: f"Refused: a verifier worker may not do this: {probe.event}" for name, probe in PROBES.items()}
    assert {name: run.outcomes[name] for name in PROBES} == expected
    assert {name: run.refused[name] for name in PROBES} == {name: probe.event for name, probe in PROBES.items()}


def test_what_verifiers_need_works_behind_all_layers(behind: Runner) -> None:
    run = behind(*(layer for layer in ALL if layer in behind().standing))
    assert {name: run.outcomes[name] for name in HARMLESS} == dict.fromkeys(HARMLESS, "ran")
    assert {name: run.refused[name] for name in HARMLESS} == dict.fromkeys(HARMLESS)


def test_audit_hook_lets_no_other_hook_in(behind: Runner) -> None:
    assert behind().outcomes["add a hook"] == "ran"
    # The interpreter keeps this refusal from the caller.
    run = behind(HOOK)
    assert run.outcomes["add a hook"].startswith("AssertionError")
    assert run.refused["add a hook"] == "sys.addaudithook"


def test_first_refusal_is_remembered_until_it_is_taken(behind: Runner) -> None:
    run = behind(HOOK)
    assert (run.outcomes["swallow"], run.refused["swallow"]) == ("ran", "exec")
    assert (run.outcomes["swallow two"], run.refused["swallow two"]) == ("ran", "os.kill")
    assert (run.outcomes["forget"], run.refused["forget"]) == ("ran", None)


def test_every_layer_either_works_or_has_its_reason() -> None:
    prepared = _prepared("")
    assert sorted([*prepared["standing"], *prepared["missing"]]) == sorted(ALL)
    assert HOOK in prepared["standing"]
    assert all(prepared["missing"].values())
    assert prepared["line"].startswith(f"verifier workers are sandboxed by {', '.join(prepared['standing'])}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_ordinary_user_has_the_layers_of_root_and_the_process_limit() -> None:
    become = f"import landlock, pyseccomp; os.setgid({NOBODY}); os.setuid({NOBODY}); sandbox.code_paths = lambda: []"
    pytest.importorskip("landlock")
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(str(error))
    standing = {*_prepared("")["standing"], "process limit"}
    assert set(_prepared(become)["standing"]) == standing


@pytest.mark.parametrize(
    ("layer", "changes", "reason"),
    [
        (LANDLOCK, "sys.modules['landlock'] = None", "the package landlock is not installed"),
        (SECCOMP, "sys.modules['pyseccomp'] = None", "the package pyseccomp is not installed"),
        (
            SECCOMP,
            "import ctypes.util\nfind = ctypes.util.find_library\n"
            "ctypes.util.find_library = lambda name: None if name == 'seccomp' else find(name)",
            "Unable to find libseccomp",
        ),
    ],
)
def test_missing_package_costs_its_layer_alone(layer: str, changes: str, reason: str) -> None:
    if layer == SECCOMP and "Unable" in reason:
        pytest.importorskip("pyseccomp", exc_type=(ImportError, RuntimeError))
    usual, prepared = _prepared(""), _prepared(changes)
    assert prepared["missing"][layer] == reason
    assert set(prepared["standing"]) == {*usual["standing"]} - {layer}
    assert f"{layer} ({reason})" in prepared["line"]


def test_system_other_than_linux_keeps_the_audit_hook() -> None:
    prepared = _prepared("import sysconfig; sysconfig.get_config_vars(); sys.platform = 'darwin'")
    assert {name for name, reason in prepared["missing"].items() if reason == "there is none on darwin"} == {
        "no_new_privs",
        LANDLOCK,
        SECCOMP,
    }
    assert HOOK in prepared["standing"]


@pytest.mark.parametrize(
    ("apply", "reason"),
    [
        ("None", "it refuses this user nothing"),
        ("time.sleep(60)", "its trial did not end"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its trial did not end"),
        ("open('/no/such/file')", "No such file or directory"),
    ],
)
def test_layer_that_fails_its_trial_is_left_out(apply: str, reason: str) -> None:
    prepared = _prepared(
        f"sandbox.TRIAL_DEADLINE_S = {3 if 'sleep' in apply else 300}\n"
        f"sandbox._seccomp = lambda: sandbox.Layer('seccomp', lambda: {apply}, lambda: None)"
    )
    assert prepared["missing"][SECCOMP] == reason
    assert SECCOMP not in prepared["standing"]
    assert HOOK in prepared["standing"]
