"""Sockets that are bound before a model is loaded."""

from __future__ import annotations

import socket
import sys

import pytest

from wlk_core.cli.main import execute
from wlk_serve import cli
from wlk_serve.server import bound_sockets


@pytest.fixture
def used_port():
    """Yield a local port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_in_use_is_one_line(used_port, capsys):
    """The line names the option that helps, and comes before any model is loaded."""
    status = execute(
        ["--backend", "scripted", "--port", str(used_port)], command=cli.serve, name="wlk-serve"
    )

    assert status == 1
    assert capsys.readouterr().err == (
        f"wlk-serve: cannot listen on port {used_port} of 127.0.0.1: another program uses it; "
        "choose another with --host or --port (0 picks a free one)\n"
    )


def test_the_sockets_are_bound_and_refuse_clients_until_the_server_listens():
    """A port that the system chooses is known at once, and is freed at the end of the block."""
    with bound_sockets("127.0.0.1", 0) as (bound,):
        address = bound.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    assert bound.fileno() == -1


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second loopback address")
def test_all_addresses_of_a_host_have_one_port(monkeypatch):
    """The server prints one port, which clients of each address use."""
    family = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    addresses = [(*family, ("127.0.0.1", 0)), (*family, ("127.0.0.2", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: addresses)

    with bound_sockets("both.example", 0) as (first, second):
        assert first.getsockname()[1] == second.getsockname()[1] > 0
