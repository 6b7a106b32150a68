"""A server with a certificate: https and wss on its port, and files that are none."""

from __future__ import annotations

import base64
import json
import ssl
from urllib.request import Request, urlopen

import pytest
from websockets.sync.client import connect

from wlk_conformance.testing.digits import load_clip
from wlk_core.cli.main import execute
from wlk_core.errors import OptionError
from wlk_serve import cli
from wlk_serve.server import tls_context

trustme = pytest.importorskip("trustme", reason="pip install trustme")

SESSION = {
    "type": "transcription",
    "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}, "turn_detection": None}},
}


@pytest.fixture(scope="module")
def authority():
    """Return a certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """Return the folder with a certificate for this machine, its key, and both in one file."""
    folder = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.private_key_pem.write_to_path(folder / "other.pem")
    (folder / "encrypted.pem").write_bytes(encrypted(issued.private_key_pem.bytes()))
    return folder


def encrypted(key):
    """Return a key in PEM with a password."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.slow  # loads a model
@pytest.mark.parametrize("names", [("certificate.pem", "key.pem"), ("both.pem", None)])
def test_a_session_and_a_request_are_encrypted(names, files, authority, digits, serve):
    """A client that trusts the authority gets the words; one that does not is refused."""
    certificate, key = (name and str(files / name) for name in names)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    pcm = (load_clip("demo").audio * 32_767).astype("<i2").tobytes()
    with serve(digits, tls=tls_context(certificate, key)) as (address, _):
        models = Request(f"{address}/models", headers={"x-api-key": "secret"})  # noqa: S310 -- https
        with urlopen(models, context=trusting, timeout=30) as answer:  # noqa: S310 -- as above
            listed = json.load(answer)["data"]
        url = address.replace("https", "wss") + "/realtime?intent=transcription"
        headers = {"x-api-key": "secret"}
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(url, additional_headers=headers, ssl=ssl.create_default_context())
        with connect(url, additional_headers=headers, ssl=trusting) as client:
            client.send(json.dumps({"type": "session.update", "session": SESSION}))
            for start in range(0, len(pcm), 48_000):
                audio = base64.b64encode(pcm[start : start + 48_000]).decode()
                client.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            client.send(json.dumps({"type": "input_audio_buffer.commit"}))
            events = iter(lambda: json.loads(client.recv(60)), None)
            done = next(event for event in events if event["type"].endswith(".completed"))

    assert [model["id"] for model in listed] == ["digits"]
    assert done["transcript"]


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        ("certificate.pem", None),
        ("certificate.pem", "other.pem"),
        ("certificate.pem", "encrypted.pem"),
        ("key.pem", "key.pem"),
    ],
)
def test_files_that_are_no_certificate_and_its_key_are_refused(certificate, key, files, capfd):
    """The line names both files, and no password is asked for on the terminal."""
    with pytest.raises(OptionError, match=r"PEM files .* --tls-certificate .*pem and --tls-key"):
        tls_context(str(files / certificate), key and str(files / key))

    assert capfd.readouterr() == ("", "")


def test_a_key_without_a_certificate_is_refused(files, capsys):
    """The line says which option is missing."""
    arguments = ["--tls-key", str(files / "key.pem"), "--backend", "scripted"]

    assert execute(arguments, command=cli.serve, name="wlk-serve") == 2
    assert "--tls-key needs a certificate: --tls-certificate FILE" in capsys.readouterr().err
