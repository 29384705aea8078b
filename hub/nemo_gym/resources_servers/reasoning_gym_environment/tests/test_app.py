"""Test the server inside NeMo Gym's application, with real workers.

`gym env test --resources-server reasoning_gym_environment` and `make integrations` run these tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("nemo_gym", reason="needs nemo-gym: make integrations")
HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE))

from app import ReasoningGymConfig, ReasoningGymServer, ReasoningGymVerifyRequest
from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import ReverifyMode
from nemo_gym.failure_kinds import FAILURE_KINDS
from nemo_gym.server_utils import ServerClient
from nemo_gym.task_data import load_task_data_schema, validate_jsonl_rows
from nemo_gym.verifier_fixture import VerifierFixture, exercise_verifier_fixture

from reasoning_env import Bridge

# The packages' own warnings are not this project's.
pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = [json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text().splitlines()]


def make_server(**bridge: Any) -> ReasoningGymServer:
    config = ReasoningGymConfig(host="127.0.0.1", port=0, entrypoint="app.py", name="reasoning_gym", bridge=bridge)
    return ReasoningGymServer(config=config, server_client=MagicMock(spec=ServerClient))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(make_server().setup_webserver()) as client:
        yield client


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge(tasks=["gcd", "countdown", "knights_knaves", "letter_counting"], seed=7) as bridge:
        yield bridge


def request(reference: object, *texts: str, **response: Any) -> dict[str, Any]:
    """Return the body of a request; each text is a message of the model's response."""
    output = [
        {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        for number, text in enumerate(texts)
    ]
    whole = {
        "id": "resp",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        **response,
    }
    return {"responses_create_params": {"input": "?"}, "response": whole, "reference": reference}


def verify(client: TestClient, *args: Any, **response: Any) -> dict[str, Any]:
    reply = client.post("/verify", json=request(*args, **response))
    assert reply.status_code == 200, reply.text
    read: dict[str, Any] = reply.json()
    return read


def test_nemo_gym_rewards_equal_the_verdicts(client: TestClient, bridge: Bridge) -> None:
    for _ in range(20):
        problem = bridge.next()
        texts = [f"<answer>{problem.answer}</answer>", "<answer>no</answer>", "no tags"]
        verdicts = bridge.judge(problem, texts)
        for text, verdict in zip(texts, verdicts, strict=True):
            assert verdict is not None
            reply = verify(client, problem.reference, text)
            assert (reply["reward"], reply["reason"]) == (verdict.score, verdict.reason.value)
            assert (reply["mask_sample"], reply["failure_kind"]) == (False, None)


@pytest.mark.parametrize("rewards", ["strict", "library"])
def test_rewards_setting_reaches_the_nemo_gym_judge(rewards: str) -> None:
    """With library rewards, the answer 0 to `coin_flip` earns a score; with strict rewards, it does not."""
    with (
        TestClient(make_server(rewards=rewards).setup_webserver()) as client,
        Bridge(tasks="coin_flip", seed=3, rewards=rewards) as bridge,
    ):
        problem = bridge.next()
        texts = [f"<answer>{problem.answer}</answer>", "<answer>0</answer>", "no tags"]
        scores = [verdict.score for verdict in bridge.judge(problem, texts) if verdict is not None]
        assert [verify(client, problem.reference, text)["reward"] for text in texts] == scores
    assert (scores[1] > 0.5) == (rewards == "library")


def test_nemo_gym_reward_is_the_product_of_its_parts(client: TestClient) -> None:
    reply = verify(client, ROWS[0]["reference"], "<answer>no</answer>")
    components = reply["reward_components"]
    assert components == {"format": 1.0, "answer": reply["reward"], "length": 1.0}
    assert {name: reply[name] for name in components} == components


def test_messages_of_a_response_are_joined_for_judging(client: TestClient) -> None:
    assert verify(client, ROWS[0]["reference"], "<answer>4", "2</answer>")["extracted_answer"] == "42"


def test_refused_response_scores_zero_as_no_text(client: TestClient) -> None:
    refusal = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": "no"}],
    }
    reply = verify(client, ROWS[0]["reference"], output=[refusal])
    assert (reply["reward"], reply["reason"], reply["mask_sample"]) == (0.0, "no_text", False)


@pytest.mark.parametrize("text", ["", "<answer>" + "[" * 1_000_000, "<answer>__import__('os')._exit(0)</answer>"])
def test_hostile_text_scores_zero_and_is_not_masked(client: TestClient, text: str) -> None:
    reply = verify(client, ROWS[0]["reference"], text)
    assert (reply["reward"], reply["mask_sample"]) == (0.0, False)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("gcd", "expected task:split:seed:level:library:question_hash:params"),
        ("", "expected task:split:seed:level:library:question_hash:params"),
        ("x" * 70_000, "at most 65536 characters"),
        ("gdc" + ROWS[0]["reference"][ROWS[0]["reference"].index(":") :], "gdc"),
    ],
)
def test_invalid_problem_reference_masks_the_sample(client: TestClient, reference: str, reason: str) -> None:
    reply = verify(client, reference, "<answer>1</answer>")
    assert (reply["reward"], reply["mask_sample"], reply["failure_kind"]) == (0.0, True, "verifier_error")
    assert reason in reply["failure_reason"]
    assert set(reply["reward_components"]) == {"format", "answer", "length"}


@pytest.mark.parametrize("reference", [None, 7, ["a"], {}])
def test_problem_reference_that_is_no_string_is_refused(client: TestClient, reference: object) -> None:
    reply = client.post("/verify", json=request(reference, "<answer>1</answer>"))
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"] == ["body", "reference"]


def test_missing_verdict_masks_the_sample() -> None:
    server = make_server(judge_url="http://127.0.0.1:9", judge_timeout_s=0.1)
    with TestClient(server.setup_webserver()) as client:
        reply = verify(client, ROWS[0]["reference"], "<answer>1</answer>")
    assert (reply["reward"], reply["mask_sample"], reply["failure_kind"]) == (0.0, True, "verifier_error")
    assert "a completion could not be judged" in reply["failure_reason"]


@pytest.mark.parametrize(
    "response",
    [
        {"status": "failed", "error": {"code": "server_error", "message": "m"}},
        {"status": "cancelled"},
    ],
)
def test_malformed_response_masks_the_sample(client: TestClient, response: dict[str, Any]) -> None:
    reply = verify(client, ROWS[0]["reference"], "<answer>1</answer>", **response)
    assert (reply["mask_sample"], reply["failure_kind"]) == (True, "agent_run_error")
    assert reply["failure_kind"] in FAILURE_KINDS


def test_masked_samples_are_excluded_from_metrics(client: TestClient) -> None:
    replies = [
        {**verify(client, reference, "<answer>1</answer>"), "_ng_task_index": number, "_ng_rollout_index": 0}
        for number, reference in enumerate((ROWS[0]["reference"], "gcd"))
    ]
    replies[0] |= {"reward": 1.0}
    metrics = client.post("/aggregate_metrics", json={"verify_responses": replies}).json()["agent_metrics"]
    assert metrics["mean/reward"] == 1.0
    assert {"mean/format", "mean/answer", "mean/length"} <= metrics.keys()


def test_server_declares_stateless_verification(client: TestClient) -> None:
    assert client.get("/reverify_mode").json() == ReverifyMode.STATELESS


def test_example_rows_have_the_declared_columns() -> None:
    schema = load_task_data_schema(HERE)
    assert schema is not None
    report = validate_jsonl_rows(HERE.name, schema, "example.jsonl", map(json.dumps, ROWS))
    assert (report.error_rows, report.unknown_keys) == (0, {})


async def test_nemo_gym_verifier_fixture_cases_pass(tmp_path: Path, bridge: Bridge) -> None:
    problem = bridge.next()
    right = request(problem.reference, f"<answer>{problem.answer}</answer>")
    cases = [
        {"name": "right", "kind": "full_reward", "request": right, "expected_reward": 1.0},
        {"name": "again", "kind": "determinism", "request": right, "expected_reward": 1.0},
        {
            "name": "wrong",
            "kind": "zero_reward",
            "request": request(problem.reference, "no tags"),
            "expected_reward": 0.0,
        },
        {
            "name": "no reference",
            "kind": "malformed",
            "request": request(None, "x"),
            "expected_error": "reference",
        },
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, cases)))
    fixture = VerifierFixture(make_server, ReasoningGymVerifyRequest, path, reseed=lambda server, body: None)
    results = await exercise_verifier_fixture(fixture, reward_range=(0.0, 1.0), determinism="seeded")
    assert [result.name for result in results] == [case["name"] for case in cases]
