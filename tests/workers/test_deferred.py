from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reasoning_env.workers.deferred import DeferredModule, defer

NAMES = ("plotting_stub", "plotting_stub.curves")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a module in it; each leaves a file behind when it is imported."""
    folder = tmp_path / NAMES[0]
    folder.mkdir()
    for name, value in (("__init__", 1), ("curves", 2)):
        mark = f"open({str(tmp_path / ('imported_' + name))!r}, 'w').close()"
        (folder / f"{name}.py").write_text(f"{mark}\nVALUE = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


def _imported(package: Path) -> list[str]:
    return sorted(path.name for path in package.glob("imported_*"))


@pytest.mark.parametrize("through_the_package", [False, True])
def test_deferred_module_is_imported_by_its_first_use(package: Path, through_the_package: bool) -> None:
    defer({NAMES[0]: ("Axes",), NAMES[1]: ()})
    parent, module = map(importlib.import_module, NAMES)
    assert isinstance(module, DeferredModule)
    assert not hasattr(module, "__file__")
    assert parent.Axes is None  # a placeholder
    assert _imported(package) == []
    used = parent.curves if through_the_package else module
    assert used.VALUE == 2
    assert _imported(package) == ["imported___init__", "imported_curves"]
    assert not isinstance(sys.modules["plotting_stub"], DeferredModule)
    with pytest.raises(AttributeError, match="plotting_stub"):
        _ = used.missing


def test_module_that_is_there_already_is_left_alone(package: Path) -> None:
    module = importlib.import_module("plotting_stub")
    defer({NAMES[0]: ()})
    assert sys.modules["plotting_stub"] is module


def test_library_is_imported_without_its_plotting() -> None:
    script = (
        "import sys; from reasoning_env.workers.library import Library; Library(None); "
        "print(any(name.startswith('matplotlib.backend') for name in sys.modules))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
