"""Settings for all tests: requests stay on this machine, and hypothesis has no deadline.

The longest test files run first, so that no core is idle at the end.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
# Each HTTP client would read all certificates of the system, which takes 40 ms. This folder has no certificates.
# `tests/certificates.py` passes the machine's certificates to programs that need them.
os.environ.setdefault("MACHINE_SSL_CERT_DIR", os.environ.pop("SSL_CERT_DIR", ""))
os.environ.setdefault("MACHINE_SSL_CERT_FILE", os.environ.pop("SSL_CERT_FILE", ""))
os.environ["SSL_CERT_DIR"] = os.path.dirname(__file__)

import pytest
from hypothesis import HealthCheck, settings

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_gym_testing import TOKENIZER
from reasoning_gym_testing.processes import PRELOADED
from tests.preloaded_library import FOLDER_VARIABLE, fresh_children, preloading, share_launcher, use_preloaded

# Modules, tests and parameters are a million objects that are never freed.
gc.set_threshold(100_000, 20, 100)

# All test processes share one import of the modules that take seconds to import.
PRELOADED += ["reasoning_gym_environment", "atroposlib.cli.run_api", "tests.use_preloaded_library"]

settings.register_profile("any_speed", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_speed")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "give every hostile answer to every task (minutes), and print the figures"
    parser.addoption("--whole-corpus", action="store_true", help=help_text)


LONGEST = (
    "test_server.py",
    "test_pool_scoring.py",
    "test_fork_server.py",
    "test_own_tasks.py",
    "test_library_rewards.py",
    "test_sandbox.py",
    "test_later_workers.py",
    "test_bridge.py",
    "test_draws.py",
    "test_corrections.py",
    "test_architecture.py",
    "test_ways.py",
    "test_session.py",
    "test_kernel.py",
    "test_cpu_time.py",
    "test_pool_generation.py",
    "test_shown_commands.py",
    "test_judge_faults.py",
    "test_served_answers.py",
    "test_faults.py",
    "test_resume.py",
    "test_every_task.py",
    "test_testing_page.py",
    "test_hostile.py",
    "test_faster.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of the files in LONGEST to the front, in the order of LONGEST."""

    def rank(item: pytest.Item) -> int:
        return next((place for place, name in enumerate(LONGEST) if item.path.name.startswith(name)), len(LONGEST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    gc.freeze()


LEVELS = {logger: logger.level for logger in (logging.root, logging.getLogger("reasoning_env"))}


@pytest.fixture(autouse=True)
def levels_of_logs() -> Iterator[None]:
    """Restore the log levels that commands and environments change."""
    yield
    for logger, level in LEVELS.items():
        if logger.level != level:  # setting it clears the caches of all loggers, of which there are hundreds
            logger.setLevel(level)


BEFORE_WORKERS = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Preload the library once. The processes of pytest-xdist start later and share the preloaded library."""
    if FOLDER_VARIABLE in os.environ:
        use_preloaded(os.environ[FOLDER_VARIABLE])
        share_launcher(os.environ[FOLDER_VARIABLE])
    elif not config.option.collectonly:
        BEFORE_WORKERS.enter_context(preloading())


def pytest_unconfigure() -> None:
    BEFORE_WORKERS.close()


@pytest.fixture
def fresh_fork_servers() -> Iterator[None]:
    with fresh_children():
        yield


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TOKENIZER)


@pytest.fixture(scope="session")
def chat(tokenizer: Any) -> ChatFormat:
    return ChatFormat(tokenizer, "demo")
