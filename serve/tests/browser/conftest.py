"""Fixtures: a server with the digits model, and Chromium whose microphone plays a recording."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import json
import shutil
import threading
from urllib.parse import urlsplit
import wave

import numpy as np
import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None
)
FLAGS = (
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
)
CLIP = "demo"
WAIT_SECONDS = 100  # for anything, on a busy machine
SILENT_SECONDS = 3.0  # after the recording, so that its last utterance ends by itself


class CuttableProxy:
    """Forwards connections to a local port, in its own thread."""

    def __init__(self, port):
        self.target = port
        self._writers = set()
        self._is_down = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.port = 0

    def __enter__(self):
        self._thread.start()
        server = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(server, self._loop).result(120)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        self._call(self._server.close)
        self.cut()
        asyncio.run_coroutine_threadsafe(self._end_tasks(), self._loop).result(120)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut(self):
        """Reset every connection, like a network that fails."""
        self._call(self._reset)

    def go_down(self):
        """Reset every connection and refuse new ones until `come_up`."""
        self._is_down = True
        self.cut()

    def come_up(self):
        """Accept connections again."""
        self._is_down = False

    def _call(self, function):
        async def run():
            function()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(120)

    def _reset(self):
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _end_tasks(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        if self._is_down:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, server_writer}
        await asyncio.gather(self._copy(reader, server_writer), self._copy(server_reader, writer))

    async def _copy(self, reader, writer):
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()
        self._writers.discard(writer)


class Reader:
    """A reader of the caption page, in a tab of playwright."""

    def __init__(self, page):
        self.page = page

    def until(self, condition):
        """Wait until a JavaScript expression is true; playwright's own wait violates the policy."""
        self.page.evaluate(f"""() => new Promise((resolve, reject) => {{
            const end = performance.now() + {WAIT_SECONDS} * 1000;
            const check = () => {{
                if ({condition}) resolve();
                else if (performance.now() > end) reject(new Error(document.body.innerText));
                else setTimeout(check, 20);
            }};
            check();
        }})""")

    def wait_for_words(self, count):
        """Wait until the page has *count* final words."""
        self.until(f"""[...document.querySelectorAll("#log .clause, #log .solid")]
            .flatMap((span) => span.textContent.split(" ")).filter(Boolean).length >= {count}""")

    def stop(self):
        """Press Stop and wait for the last words."""
        self.page.click("#start")
        self.until("document.documentElement.dataset.phase === 'idle'")

    def download(self, kind):
        """Return the content of a downloaded file."""
        self.page.click("#save")
        with self.page.expect_download() as started:
            self.page.click(f"[data-format={kind}]")
        self.page.click("#save-dialog .main")
        assert started.value.suggested_filename.endswith(f".{kind}")
        return started.value.path().read_text(encoding="utf-8")

    def words(self):
        """Return the downloaded words."""
        return [record["word"] for record in json.loads(self.download("json"))["words"]]


@pytest.fixture
def proxied(serve, digits):
    """Yield a proxy in front of a server that needs no key."""
    with serve(digits, keys=()) as (address, _), CuttableProxy(urlsplit(address).port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def playwright():
    """Return playwright; skip the test if it or Chromium is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, on Debian: apt-get install chromium")
    with api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def transcript(digits):
    """Return the recording's transcript, made without a server."""
    from wlk_conformance.testing.digits import clip_path  # noqa: PLC0415 -- only in the browser's session
    from wlk_live import transcribe  # noqa: PLC0415 -- as above

    backend, _ = digits
    return transcribe(backend, clip_path(CLIP), language="en")


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """Return the path of the recording as a wav file that ends in silence."""
    from wlk_conformance.testing.digits import load_clip  # noqa: PLC0415 -- as above

    audio = np.concatenate([load_clip(CLIP).audio, np.zeros(round(SILENT_SECONDS * 16_000))])
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes())
    return path


@pytest.fixture
def browser(playwright, recording):
    """Return Chromium; its microphone plays the recording once, starting when it is opened."""
    microphone = f"--use-file-for-fake-audio-capture={recording}%noloop"
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, microphone])
    yield browser
    browser.close()


def is_fault(line):
    """Return whether a console line reports more than a failed request."""
    is_request = line.text.startswith(("Failed to load resource", "WebSocket connection to"))
    return line.type == "error" and not is_request


@pytest.fixture
def complaints():
    """Yield the list of the browser's complaints, which must be empty at the end of a test."""
    found = []
    yield found
    assert found == []


@pytest.fixture
def open_page(browser, complaints):
    """Return a function that opens an address in a new window and returns its Reader."""

    def open_page(address, **options):
        context = browser.new_context(permissions=["microphone"], **options)
        page = context.new_page()
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if is_fault(line) else None)
        page.goto(address)
        return Reader(page)

    return open_page
