"""The `recover` command's words and status."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.recover import recover_command
from reasoning_env.rollouts.parts import PASSED_PREFIX, claim

LINE = b'{"item_id": "chain_sum"}\n'


def _part(folder: Path, batch: int, content: bytes) -> Path:
    path = folder / f"{PASSED_PREFIX}_run_{batch:04d}.jsonl.part"
    path.write_bytes(content)
    return path


def test_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover_command([], tmp_path) == 0
    assert capsys.readouterr().out == f"nothing to do in {tmp_path}\n"


def test_every_part_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _part(tmp_path, 0, LINE * 3)
    _part(tmp_path, 1, LINE + b"torn")
    _part(tmp_path, 2, b"torn")
    with claim(tmp_path, f"{PASSED_PREFIX}_run", 3).file:
        assert recover_command([str(tmp_path)], tmp_path / "other") == 0
    name = f"{PASSED_PREFIX}_run_{{}}.jsonl"
    assert capsys.readouterr().out.splitlines() == [
        f"completed  {name.format('0000')}: 3 groups",
        f"completed  {name.format('0001')}: 1 group, 4 bytes of a torn line cut off",
        f"deleted    {name.format('0002')}.part: no whole group, 4 bytes of a torn line cut off",
        f"in use     {name.format('0003')}.part: left alone",
        f"{tmp_path}: 2 completed, 1 deleted, 1 in use",
    ]


def test_part_that_cannot_be_completed_makes_the_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: Path) -> None:
        raise OSError(5, "Input/output error")

    part = _part(tmp_path, 0, LINE)
    monkeypatch.setattr("os.rename", refuse)
    assert recover_command([], tmp_path) == 1
    assert f"FAILED     {part.name}: Input/output error\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["missing", "a file"])
def test_folder_that_is_none_raises_config_error(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "dumps"
    if kind == "a file":
        folder.touch()
    with pytest.raises(ConfigError, match=r"dumps cannot be read: .*; name the folder"):
        recover_command([str(folder)], tmp_path)
