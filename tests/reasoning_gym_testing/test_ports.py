"""Reserve a free port until the server listens."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from reasoning_gym_testing import HOST, InferenceServer, free_port, http_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a bound socket lets a server listen")


@pytest.fixture
def port() -> Iterator[int]:
    reserved = free_port()
    yield reserved
    http_server.release_port(reserved)


def bind(port: int) -> None:
    with socket.socket() as other:
        other.bind((HOST, port))


def test_reserved_port_refuses_connections(port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))


def test_server_listens_on_reserved_port(port: int) -> None:
    with socket.create_server((HOST, port)) as listener, socket.create_connection((HOST, port)):
        listener.accept()[0].close()


async def test_inference_server_keeps_its_port_while_it_refuses_connections() -> None:
    async with InferenceServer() as server:
        server.fail(http_server.refuse)
        with pytest.raises(OSError, match="in use"):
            bind(int(server.url.rpartition(":")[2]))


def test_reserved_ports_are_closed_when_the_process_ends() -> None:
    script = "from reasoning_gym_testing import free_port; free_port()"
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True)
    assert "ResourceWarning" not in ended.stderr


async def test_ended_server_frees_its_port() -> None:
    async with InferenceServer() as server:
        port = int(server.url.rpartition(":")[2])
    bind(port)
