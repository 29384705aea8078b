"""The short help of the commands that need the environment class, which is not loaded for it."""

from __future__ import annotations

COMMON = (
    ("--config FILE", "a YAML file with settings; options win over it"),
    ("--openai.base_url URL", "the inference server, http://localhost:9001/v1 by default"),
    ("--openai.server_type TYPE", "vllm, sglang, trl, openai (default) or chat"),
    ("--openai.model_name NAME", "the model, as the server calls it"),
    ("--env.tokenizer_name NAME", "its tokenizer: a name on the Hugging Face hub, or a folder"),
    ("--env.tasks LIST", "tasks, globs, categories: gcd,*_sorting,games (default: all)"),
    ("--env.max_token_length N", "tokens of prompt and completion together (2048)"),
)
GROUP_SIZE = ("--env.group_size N", "completions of each problem (4)")
LEVEL = ("--env.complexity_level X", "difficulty from 0 to 1 (default: the library's own)")

ABOUT = {
    "serve": (
        "Generate problems, score completions, and send groups whose scores differ to a trainer.",
        (
            *COMMON,
            GROUP_SIZE,
            ("--env.rollout_server_url URL", "Atropos' API, http://localhost:8000 by default"),
            ("--env.complexity_mode MODE", "random or curriculum: difficulty that varies, or follows the learner"),
        ),
        ("--config configs/vllm.yaml", "--config configs/vllm.yaml --env.tasks games,gcd"),
        "Ctrl-C lets groups in flight finish; a second one ends at once. Where the trainer saves\n"
        "checkpoints, the run goes on when it is started again.",
    ),
    "process": (
        "Write groups of scored completions to a file, one JSON line a group; no trainer is needed.",
        (
            *COMMON,
            GROUP_SIZE,
            ("--env.total_steps N", "groups to write (1000)"),
            ("--env.data_path_to_save_groups FILE", "where to (data/reasoning_gym.jsonl)"),
            ("--keep best|correct|all", "write chat data for fine-tuning too: FILE-best.jsonl"),
        ),
        (
            "--config configs/vllm.yaml --env.total_steps 200",
            "--config configs/vllm.yaml --keep correct",
        ),
        "The same command goes on with a file that was not finished, whatever ended it. 64 groups are\n"
        "under way at a time, so that 1000 take some 16 times as long as one. Look at them with the\n"
        "command `report FILE`.",
    ),
    "evaluate": (
        "Score a model on a fixed set of problems, the same on every machine.",
        (
            *COMMON,
            ("--preset NAME", "rg-easy or rg-hard: the protocol of the Reasoning Gym paper"),
            ("--env.num_eval_samples_per_task N", "problems of each task (5)"),
            ("--env.eval_temperature X", "sampling temperature (0.6)"),
            ("--env.max_eval_workers N", "problems under way at a time (16)"),
        ),
        ("--config configs/local_openai.yaml", "--config configs/vllm.yaml --preset rg-easy"),
        "All tasks at 5 problems each are about 500 completions, 16 of them under way at a time.",
    ),
}


def short_help(program: str, command: str) -> str:
    """Return a screen of help: what the command does, the options that matter, examples."""
    about, options, examples, note = ABOUT[command]
    width = max(len(name) for name, _ in options)
    lines = [f"usage: {program} {command} [options]", "", about, "", "options:"]
    lines += [f"  {name:{width}}  {words}" for name, words in options]
    lines += [f"  {'--print-config':{width}}  print all settings as a file, without running"]
    lines += [f"  {'--help-all':{width}}  all options, with ranges and defaults"]
    lines += ["", "examples:", *(f"  {program} {command} {example}" for example in examples), "", note]
    return "\n".join(lines)
