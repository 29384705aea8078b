from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.atropos.wandb import has_account


@pytest.fixture
def netrc_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place left where an account could be configured."""
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


def _login(netrc_file: Path, host: str) -> None:
    netrc_file.write_text(f"machine {host}\n  login user\n  password key\n")
    netrc_file.chmod(0o600)


@pytest.mark.usefixtures("netrc_file")
def test_nothing_configured_is_no_account() -> None:
    assert not has_account()


@pytest.mark.usefixtures("netrc_file")
@pytest.mark.parametrize("name", ["WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"])
def test_key_in_the_environment_is_an_account(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert has_account()


def test_login_in_netrc_is_an_account(netrc_file: Path) -> None:
    _login(netrc_file, "api.wandb.ai")
    assert has_account()


def test_login_for_another_host_is_no_account(netrc_file: Path) -> None:
    _login(netrc_file, "example.org")
    assert not has_account()


def test_login_for_a_server_of_ones_own_is_an_account(netrc_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _login(netrc_file, "wandb.example.org")
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8443/")
    assert has_account()


def test_unreadable_netrc_is_no_account(netrc_file: Path) -> None:
    netrc_file.write_text("machine\nlogin")
    netrc_file.chmod(0o600)
    assert not has_account()
