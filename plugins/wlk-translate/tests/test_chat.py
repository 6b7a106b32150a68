"""The translator sends the right requests to a server, and reports its failures."""

from __future__ import annotations

from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint
import json
import threading

import pytest
from test_clauses import tokens_of

pytest.importorskip("openai")

from wlk_conformance.translators import TranslatorConformance
from wlk_core.plugins import BackendError, BackendUnavailable, OptionError
from wlk_core.registry import Registry

KEY = "sk-loopback-0123456789"


class ChatServer(ThreadingHTTPServer):
    """
    A server whose model answers with the last message in capitals.

    Pairs of status and body in `next` are the answers to the next requests instead.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.next = deque()
        self.requests = []

    @property
    def url(self):
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # send each answer in one packet

    def do_POST(self):
        """Answer a request for a chat completion."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, self.headers["authorization"], request))
        text = request["messages"][-1]["content"].upper()
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        status, answer = 200, {**body, "choices": [choice]}
        if self.server.next:
            status, answer = self.server.next.popleft()
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.fixture(scope="module")
def server():
    """Return a running server."""
    with ChatServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def opened(server, monkeypatch):
    """Return a function that opens a translator that uses the server."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    server.requests.clear()
    registry = Registry([EntryPoint("openai-chat", "wlk_translate.plugin", "wlk.plugins")])

    def opened(name="openai-chat=qwen3", **options):
        chosen = {"base_url": server.url, "target_language": "de", "max_retries": 0} | options
        return registry.load_annotator("translator", name, **chosen)

    return opened


def translated(translator, text):
    """Return the translations of an utterance as strings."""
    translator.insert_tokens(tuple(tokens_of(text)))
    return [found.text for found in translator.finish()]


class TestRules(TranslatorConformance):
    """Run the contract of translators over HTTP."""

    @pytest.fixture(autouse=True)
    def _open_at_the_server(self, opened):
        self.open = opened


def test_earlier_clauses_are_turns_of_the_chat(opened, server):
    """The last two clauses are sent, and languages are named in English."""
    found = translated(opened(source_language="en"), "One. Two. Three. Four.")
    (path, key, request) = server.requests[-1]
    system, *turns = request["messages"]

    assert found == ["ONE.", "TWO.", "THREE.", "FOUR."]
    assert (path, key) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert [turn["content"] for turn in turns] == ["Two.", "TWO.", "Three.", "THREE.", "Four."]
    assert "from English into German" in system["content"]
    assert (request["model"], request["temperature"]) == ("qwen3", 0.0)


def test_a_model_of_one_temperature_gets_none(opened, server):
    """The refused request is repeated without a temperature, and later ones have none."""
    error = {"message": "unsupported", "param": "temperature", "type": "invalid_request_error"}
    server.next.append((400, {"error": error}))

    assert translated(opened(), "One. Two.") == ["ONE.", "TWO."]
    assert ["temperature" in sent for _, _, sent in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"error": {"message": f"bad key {KEY}"}}, "answered 401: .*bad key"),
        (500, "oops", "answered 500"),
        (200, {"object": "chat.completion", "choices": []}, "sent no chat completion"),
        (200, "[]", "sent no chat completion"),
    ],
)
def test_a_failing_server_is_one_line(status, body, message, opened, server):
    """The line has the server and the model, but never the key."""
    server.next.append((status, body))
    with pytest.raises(BackendError, match=message) as raised:
        translated(opened(), "One.")

    assert f"openai-chat: {server.url}/ with model qwen3" in str(raised.value)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_an_absent_server_is_one_line(opened):
    """Nothing listens on that port."""
    with pytest.raises(BackendError, match="cannot be reached"):
        translated(opened(base_url="http://127.0.0.1:9/v1"), "One.")


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("openai-chat", {}, OptionError, "expected a model.*--translator openai-chat=MODEL"),
        ("openai-chat=m", {"target_language": None}, OptionError, "expected a target_language"),
        ("openai-chat=m", {"base_url": "ftp://a"}, OptionError, "base_url is the URL"),
        ("openai-chat=m", {"api_key_env": KEY}, OptionError, "never the key itself$"),
        ("openai-chat=m", {"api_key_env": "NONE", "base_url": None}, BackendUnavailable, "NONE"),
    ],
)
def test_what_is_missing_is_refused_when_it_is_loaded(name, options, error, message, opened):
    """It is refused before the first word."""
    with pytest.raises(error, match=message):
        opened(name, **options)


def test_offline_the_text_stays_on_this_machine(monkeypatch, opened):
    """A server on this machine can still be used."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BackendUnavailable, match="the network is switched off"):
        opened(base_url="https://chat.example/v1")

    assert translated(opened(), "One.") == ["ONE."]
