"""The hostile corpus is judged alike by problem and by reference, on a bridge and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from reasoning_env import Session
from reasoning_env.bridge import Bridge
from reasoning_env.server import JudgeServer
from tests.hostile_groups import SETTINGS, Group, differences, hostile_groups, outcomes
from tests.workers.traps import Traps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def corpus(pytestconfig: pytest.Config) -> Iterator[tuple[list[Group], Traps]]:
    with hostile_groups(pytestconfig) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def groups(corpus: tuple[list[Group], Traps]) -> list[Group]:
    return corpus[0]


async def test_session_judges_references_alike(groups: list[Group]) -> None:
    session = Session(SETTINGS)
    await session.start()
    judged = [outcomes(await session.judge(group.reference, group.completions)) for group in groups]
    await session.close()
    assert not differences(groups, judged)


def test_bridge_judges_alike(groups: list[Group]) -> None:
    with Bridge(SETTINGS) as bridge:
        judged = [outcomes(bridge.judge(group.reference, group.completions)) for group in groups]
    assert not differences(groups, judged)


async def test_server_judges_alike(groups: list[Group]) -> None:
    session = Session(SETTINGS)
    await session.start()
    judged = []
    async with TestClient(TestServer(JudgeServer(session).app())) as client:
        for group in groups:
            reply = await client.post("/score", json={"ref": group.reference, "texts": list(group.completions)})
            judged.append([(row["score"], row["reason"]) for row in (await reply.json())["verdicts"]])
    await session.close()
    assert not differences(groups, judged)


def test_nothing_is_executed(corpus: tuple[list[Group], Traps]) -> None:
    # pytest itself sets a variable for each test.
    assert [event for event in corpus[1].sprung() if event != "changed a variable"] == []
