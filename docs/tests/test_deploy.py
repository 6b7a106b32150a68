"""The configurations of docs/deploy.md, as far as this machine has the programs that read them."""

from __future__ import annotations

import base64
from contextlib import contextmanager, suppress
import os
from pathlib import Path
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import pytest

from wlk_conformance.testing.digits import clip_path, load_clip

PAGE = (Path(__file__).resolve().parents[1] / "deploy.md").read_text(encoding="utf-8")
MODEL = ["--backend", "faster-whisper", "--model", "digits", "--language", "en"]
NAME = "captions.example"
COMPLETED = "conversation.item.input_audio_transcription.completed"

pytestmark = pytest.mark.slow


def block(language):
    """Return the only block of the page in *language*."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return text


def program_or_skip(name):
    """Return the path of a program, or skip the test without it."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    return program or pytest.skip(f"{name} is not installed")


def free_port():
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextmanager
def running(command, **options):
    """Yield a process; terminate it at the end."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def serving(*arguments):
    """Yield the port of wlk-serve."""
    command = [sys.executable, "-m", "wlk_serve", *MODEL, "--port", "0", *arguments]
    environment = {**os.environ, "WLK_KEYS": "secret"}
    with running([*command], stderr=subprocess.PIPE, text=True, env=environment) as server:
        line = server.stderr.readline()
        assert "ready on" in line, line
        yield int(line.split()[3].rsplit(":", 1)[1])


@pytest.fixture
def certificate(tmp_path):
    """Return a certificate and its key for the name of the page and for localhost."""
    command = [
        program_or_skip("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
    ]
    files = f"{tmp_path}/cert.pem", f"{tmp_path}/key.pem"
    command += ["-out", files[0], "-keyout", files[1], "-subj", f"/CN={NAME}"]
    command += ["-addext", f"subjectAltName=DNS:{NAME},DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return files


def wait_for(port, process):
    """Wait until something listens on a port."""
    for _ in range(1200):  # a minute
        assert process.poll() is None, "the proxy has ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
            return
        time.sleep(0.05)  # for a process of another project, which reports nothing
    pytest.fail("the proxy does not listen")


@contextmanager
def nginx(tmp_path, certificate, backend_port, port):
    """Run nginx on a port with the configuration of the page."""
    program = program_or_skip("nginx")
    site = block("nginx").replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{backend_port}")
    site = re.sub(r"(ssl_certificate) [^;]*", rf"\1 {certificate[0]}", site)
    site = re.sub(r"(ssl_certificate_key) [^;]*", rf"\1 {certificate[1]}", site)
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off;\npid {tmp_path}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{site}}}\n",
        encoding="utf-8",
    )
    with running([program, "-p", str(tmp_path), "-c", str(configuration)]) as process:
        wait_for(port, process)
        yield


@contextmanager
def caddy(tmp_path, certificate, backend_port, port):
    """Run Caddy on a port with the configuration of the page."""
    program = program_or_skip("caddy")
    site = block("caddyfile").replace("127.0.0.1:8000", f"127.0.0.1:{backend_port}")
    site = site.replace(f"{NAME} {{", f"{NAME}:{port} {{\n    tls {' '.join(certificate)}")
    (tmp_path / "Caddyfile").write_text(
        f"{{\n    admin off\n    auto_https disable_redirects\n}}\n{site}", encoding="utf-8"
    )
    command = [program, "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    with running(command, env=environment, stderr=subprocess.DEVNULL) as process:
        wait_for(port, process)
        yield


@pytest.fixture
def public_name(monkeypatch):
    """Let the name of the page lead to this machine, as its DNS record would."""
    resolve = socket.getaddrinfo

    def resolve_locally(host, *arguments, **options):
        local = "127.0.0.1" if host in {NAME, NAME.encode()} else host
        return resolve(local, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_locally)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
@pytest.mark.usefixtures("public_name")
@pytest.mark.parametrize("proxy", [nginx, caddy], ids=["nginx", "caddy"])
def test_openais_client_works_through_a_proxy(tmp_path, certificate, proxy):
    """By the public name, with TLS: a recording, its events, and a session of a page."""
    openai = pytest.importorskip("openai")
    httpx = pytest.importorskip("httpx2")
    context, port = ssl.create_default_context(cafile=certificate[0]), free_port()
    site = f"https://{NAME}:{port}"
    with (
        serving("--api-key-env", "WLK_KEYS", "--allow-origin", site) as backend_port,
        proxy(tmp_path, certificate, backend_port, port),
        openai.OpenAI(
            base_url=f"{site}/v1",
            api_key="secret",
            max_retries=0,
            http_client=httpx.Client(verify=context),
        ) as client,
        client.realtime.connect(
            extra_query={"intent": "transcription"},
            extra_headers={"Origin": site},
            websocket_connection_options={"ssl": context},
        ) as connection,
    ):
        create = client.audio.transcriptions.create
        text = create(file=clip_path("demo"), model="digits").text
        events = list(create(file=clip_path("demo"), model="digits", stream=True))
        audio = (load_clip("demo").audio * 32_767).astype("<i2").tobytes()
        form = {"format": {"type": "audio/pcm", "rate": 16_000}, "turn_detection": None}
        connection.session.update(session={"type": "transcription", "audio": {"input": form}})
        connection.input_audio_buffer.append(audio=base64.b64encode(audio).decode())
        connection.input_audio_buffer.commit()
        spoken = next(event.transcript for event in connection if event.type == COMPLETED)

    assert len(text.split()) == 13
    assert text == events[-1].text == spoken
    assert len(events) > 2


def test_systemd_accepts_the_unit(tmp_path):
    """Every directive is known to it; the program is the one of this machine."""
    analyze = program_or_skip("systemd-analyze")
    unit = tmp_path / "wlk-serve.service"
    program = shutil.which("true")
    unit.write_text(block("ini").replace("/opt/wlk/bin/wlk-serve", program), encoding="utf-8")
    command = [analyze, "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if "wlk-serve" in line] == []
