"""The `recover` command: what it takes, what it tells, and its status."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from reasoning_env.commands.recover import recover_command
from reasoning_env.errors import ConfigError
from tests.dumps.groups import old_dump

LINE = b'{"item_id": "chain_sum"}\n'


def test_every_torn_file_of_a_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_dump(tmp_path, LINE * 3)
    torn = old_dump(tmp_path, LINE + b"torn", 1)
    young = old_dump(tmp_path, LINE + b"torn", 2, age_s=-3600)  # however slow this machine is
    assert recover_command([str(tmp_path)], tmp_path / "other") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [path for line in lines for path in (torn, young) if path.name in line] == [torn, young]
    assert (torn.read_bytes(), young.read_bytes()) == (LINE, LINE + b"torn")
    assert recover_command([], young) == 0
    assert young.read_bytes() == LINE


def test_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover_command([], tmp_path) == 0
    assert str(tmp_path) in capsys.readouterr().out


def test_file_that_cannot_be_mended_makes_the_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_dump(tmp_path, b"torn")
    monkeypatch.setattr("os.truncate", Mock(side_effect=OSError(5, "Input/output error")))
    assert recover_command([], tmp_path) == 1
    assert f"{path.name}: Input/output error" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["missing", "model.bin"])
def test_path_without_dumps_raises_config_error_and_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.bin").write_bytes(b"no line")
    with pytest.raises(ConfigError, match=name):
        recover_command([str(tmp_path / name)], tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == b"no line"
