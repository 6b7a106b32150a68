"""A model card and streams that record what a protocol does with them."""

from __future__ import annotations

from contextlib import closing, contextmanager
import http.client
import threading
from urllib.parse import urlsplit

import attrs
import pytest

from wlk_conformance.protocols import SilentStream
from wlk_core.backend import BackendSpec
from wlk_core.options import Option
from wlk_core.registry import Registry
from wlk_core.tokens import ASRToken
from wlk_serve.protocols import ModelCard


@attrs.define
class Clock:
    """A clock that only the test moves."""

    now: float = 100.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """Return a clock that only the test moves."""
    return Clock()


@pytest.fixture
def spec():
    """Return the spec of a backend that has two languages and takes prompts."""
    return BackendSpec(
        name="toy",
        api=1,
        summary="a toy",
        load="toy:load",
        languages=("en", "fr"),
        capabilities=["language-forcing", "language-detection", "probabilities"],
        options=(Option(name="prompt", type=str, default="", help="text before", scope="stream"),),
    )


@pytest.fixture
def card(spec):
    """Return the card of the model "small"."""
    return ModelCard(name="small", spec=spec)


@pytest.fixture
def streams():
    """Return the list of opened streams."""
    return []


@pytest.fixture
def open_stream(streams, monkeypatch):
    """Return a function that opens streams, which get at most a second of audio per call."""
    monkeypatch.setattr("wlk_serve.protocols.audio._WHOLE_SECONDS", 1)
    monkeypatch.setattr("wlk_serve.protocols.audio._PART_SECONDS", 1)

    def open_stream(config):
        streams.append(SilentStream(config))
        return streams[-1]

    return open_stream


@pytest.fixture
def token():
    """Return a function that creates tokens."""

    def token(text, start=0.0, end=0.5, **fields):
        return ASRToken(start, end, text, **{"probability": 0.5, **fields})

    return token


@pytest.fixture(scope="session")
def digits():
    """Return the loaded digits model and its spec, limited to one engine call at a time."""
    registry = Registry()
    spec = attrs.evolve(registry.spec("faster-whisper"), max_concurrent_calls=1)
    with registry.load_backend("faster-whisper", "digits") as backend:
        yield backend, spec


@contextmanager
def serve_digits(
    digits,
    limits=None,
    *,
    keys=("secret", "other"),
    open_diarizer=None,
    open_translator=None,
    name="digits",
    **options,
):
    """
    Run a server in a thread; yield its address and the server, and drain it at the end.

    *digits* is a loaded backend and its spec; the options are `routes`, `listeners` and `tls`.
    """
    from wlk_serve.admission import Admission  # noqa: PLC0415 -- as above
    from wlk_serve.app import Server  # noqa: PLC0415 -- most tests need no server
    from wlk_serve.models.service import Service  # noqa: PLC0415 -- as above
    from wlk_serve.protocols import installed_routes  # noqa: PLC0415 -- as above
    from wlk_serve.server import DrainingServer, bound_sockets  # noqa: PLC0415 -- as above

    backend, spec = digits
    ports, is_ready = [], threading.Event()

    def on_ready(port):
        ports.append(port)
        is_ready.set()

    card = ModelCard.of(spec, name, "en" if name == "digits" else None)
    openers = {}
    if open_diarizer is not None:
        openers["diarizer"] = open_diarizer
        card = attrs.evolve(card, speaker_delay=open_diarizer().max_delay)
    if open_translator is not None:
        openers["translator"] = open_translator
        card = attrs.evolve(card, translates_to="de")
    with (
        closing(Service(backend, card, openers=openers)) as service,
        bound_sockets("127.0.0.1", 0) as sockets,
    ):
        admission = Admission.of(keys, ["https://captions.example"], is_local=True)
        routes = options.get("routes")
        if routes is None:
            routes = installed_routes(Registry())
        application = Server(service, admission=admission, limits=limits, routes=routes)
        server = DrainingServer(
            application,
            drain_seconds=0.0,
            listeners=options.get("listeners"),
            on_ready=on_ready,
            tls=options.get("tls"),
        )
        thread = threading.Thread(target=server.run, args=(sockets,))
        thread.start()
        try:
            assert is_ready.wait(30)
            scheme = "https" if options.get("tls") else "http"
            yield f"{scheme}://127.0.0.1:{ports[0]}/v1", server
        finally:
            if not application.sessions.is_draining:
                server.handle_exit(15, None)
            thread.join(60)


@pytest.fixture(scope="session")
def serve():
    """Return the context manager that serves the digits model."""
    return serve_digits


@pytest.fixture(scope="module")
def address(digits):
    """Return the address of a server shared by all tests of a module."""
    with serve_digits(digits) as (address, _):
        yield address


@pytest.fixture(scope="session")
def fetch():
    """Return a function that sends a request with a key and returns status, text and headers."""

    def fetch(address, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"x-api-key": "secret", **names})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, dict(answer.getheaders())

    return fetch


@pytest.fixture(scope="session")
def post_form(fetch):
    """Return a function that posts a recording and fields and returns status and text."""
    head = '--x\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'.format

    def post_form(address, recording, **fields):
        parts = [f"{head(name, '')}{value}\r\n".encode() for name, value in fields.items()]
        parts += [head("file", '; filename="a.flac"').encode(), recording, b"\r\n--x--\r\n"]
        kind = {"content_type": "multipart/form-data; boundary=x"}
        return fetch(address, "POST", "/v1/audio/transcriptions", b"".join(parts), **kind)[:2]

    return post_form
