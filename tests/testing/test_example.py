"""The example in the README: somebody's own test of the environment, against a mocked inference server."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import testing

README = Path(testing.__file__).parent.parent / "README.md"


async def test_the_example_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(
        r"```python\n(from reasoning_gym_environment .*?reasoning_gym_testing .*?)```", README.read_text(), re.S
    )
    monkeypatch.setitem(sys.modules, "reasoning_gym_testing", testing)
    names: dict[str, object] = {}
    exec(example, names)
    await names["test_right_and_wrong"]()
