from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.storage.folders import default_dumps_folder, find_checkout


def test_library_checkout_is_found_in_the_given_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert find_checkout(tmp_path) is None
    package = tmp_path / "reasoning-gym" / "reasoning_gym"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert find_checkout(tmp_path) == tmp_path / "reasoning-gym"
    assert caplog.messages == []


@pytest.mark.parametrize("inside", [".", "reasoning_gym"])
def test_warning_is_logged_if_the_library_checkout_lacks_the_package_folder(
    tmp_path: Path, inside: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "reasoning-gym" / inside).mkdir(parents=True)
    assert find_checkout(tmp_path) is None
    assert str(tmp_path / "reasoning-gym") in caplog.text


@pytest.mark.parametrize("marks", [(), ("pyproject.toml",), ("reasoning_gym_environment.egg-info",)])
def test_dumps_folder_of_a_cloned_repository_is_inside_the_clone(tmp_path: Path, marks: tuple[str, ...]) -> None:
    """The three cases: a folder in another source tree, a clone, and an editable installation."""
    for mark in marks:
        (tmp_path / mark).touch()
    assert default_dumps_folder(tmp_path) == tmp_path / "data_dumps"


@pytest.mark.parametrize(
    ("folder", "marks"),
    [
        ("target", ("reasoning_gym_environment-0.1.0.dist-info", "pyproject.toml")),
        ("lib/python3.11/site-packages/environments/reasoning_gym_environment", ("pyproject.toml",)),
        ("lib/python3/dist-packages", ()),
    ],
)
def test_dumps_folder_is_in_the_working_dir_if_the_package_is_installed(
    tmp_path: Path, folder: str, marks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for mark in marks:
        (tmp_path / folder / mark).touch()
    monkeypatch.chdir(tmp_path)
    assert default_dumps_folder(tmp_path / folder) == tmp_path / "data_dumps"
