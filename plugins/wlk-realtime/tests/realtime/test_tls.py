"""Certificates that are not trusted, and TLS at a server without it: one line with the remedy."""

from __future__ import annotations

import datetime as dt
import ssl

from faulty_proxy import FaultyProxy
import pytest
from web_sockets import listening

from wlk_conformance.testing import CodedToken, encode
from wlk_core import load_backend
from wlk_core.errors import BackendError, OptionError
from wlk_realtime.realtime.declaration import Declaration

trustme = pytest.importorskip("trustme", reason="pip install trustme")

AUDIO = encode([CodedToken(1 + i % 10, 2 + 5 * i, 3) for i in range(8)], cells=44)
YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority():
    """Return an authority that no system trusts."""
    return trustme.CA()


@pytest.fixture
def ca_file(authority, tmp_path):
    """Return the file of its certificate."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def context_of(certificate):
    """Return the context of a server with *certificate*."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def self_signed(authority, tmp_path):
    """Return the context of a server that is its own authority."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    authority.cert_pem.write_to_path(chain)
    authority.private_key_pem.write_to_path(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context


def ignore(connection):
    """Serve nothing: no connection gets this far."""


def failures(url, monkeypatch, **options):
    """Return the errors of the list of models and of the WebSocket: lines with the address."""
    lines = []
    for is_declared in (False, True):
        with load_backend("realtime", url, **options) as backend:
            if is_declared:
                monkeypatch.setattr(backend.engine, "_declaration", Declaration())
            with pytest.raises(BackendError) as raised:
                backend.warmup()
        assert url in str(raised.value)
        assert "\n" not in str(raised.value)
        lines.append(str(raised.value))
    return lines


@pytest.mark.slow
def test_a_server_with_a_certificate_of_a_named_authority_is_used(
    authority, ca_file, scripted_server
):
    """Its list of models and its sessions are encrypted."""
    tls = context_of(authority.issue_cert("localhost"))
    with (
        FaultyProxy(scripted_server.url, tls=tls, host="localhost") as proxy,
        load_backend("realtime", proxy.url, ca_file=str(ca_file)) as backend,
    ):
        text = backend.transcribe(AUDIO, vad=False).text

    assert 8 == len(text.split())


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("localhost", "unable to get local issuer"),
        ("gpu.example", "mismatch"),
        ("expired", "certificate has expired"),
        (None, "self-signed certificate"),
    ],
)
def test_a_certificate_that_is_not_trusted(host, reason, authority, ca_file, monkeypatch):
    """The line has the reason and what to do; a known authority helps with no other fault."""
    options = {"ca_file": str(ca_file)} if host in ("gpu.example", "expired") else {}
    if host is None:
        tls = self_signed(authority, ca_file.parent)
    elif host == "expired":
        tls = context_of(authority.issue_cert("localhost", not_after=YESTERDAY))
    else:
        tls = context_of(authority.issue_cert(host))
    with listening(ignore, ssl=tls) as port:
        lines = failures(f"wss://localhost:{port}/v1/realtime", monkeypatch, **options)

    assert all(reason in line and "--option ca_file=FILE" in line for line in lines)


def test_tls_to_a_server_without_it(monkeypatch):
    """The address is to begin with ws://."""
    with listening(ignore) as port:
        url = f"wss://localhost:{port}/v1/realtime"
        lines = failures(url, monkeypatch)

    assert all("ws://" in line.replace(url, "") for line in lines)


def test_no_tls_to_a_server_with_it(authority, monkeypatch):
    """The address is to begin with wss://."""
    with listening(ignore, ssl=context_of(authority.issue_cert("localhost"))) as port:
        lines = failures(f"ws://localhost:{port}/v1/realtime", monkeypatch)

    assert all("wss://" in line for line in lines)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_without_certificates_is_refused(content, tmp_path):
    """Before anything is sent."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content, encoding="utf-8")

    with pytest.raises(OptionError, match="option ca_file as a file of certificates") as raised:
        load_backend("realtime", "wss://localhost/v1/realtime", ca_file=str(path))

    assert "\n" not in str(raised.value)
