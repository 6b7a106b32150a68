"""The caption page in Chromium, whose microphone plays the digits."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("playwright", reason="needs: pip install playwright")
pytest.importorskip("faster_whisper")

pytestmark = pytest.mark.slow
IDLE = "document.documentElement.dataset.phase === 'idle'"


@pytest.fixture
def address(serve, digits):
    """Return the address of a server that needs no key."""
    with serve(digits, keys=()) as (address, _):
        yield address.removesuffix("/v1")


def letters(*texts):
    """Return joined texts without white space, which the model omits at some audio positions."""
    return "".join("".join(texts).split())


def test_the_microphone_becomes_words_and_files(open_page, address, transcript):
    """The log and every download have the words of `wlk-core transcribe`, in order."""
    reader = open_page(address)
    page = reader.page
    page.click("#start")
    reader.wait_for_words(len(transcript.words))
    reader.stop()
    clauses = page.locator("#log .clause").all_text_contents()
    records = json.loads(reader.download("json"))["words"]

    expected = letters(transcript.text)
    assert letters(*clauses) == expected
    assert letters(reader.download("txt")) == expected
    assert letters(*[record["word"] for record in records]) == expected
    # The browser begins to play the recording a moment before it records.
    assert transcript.words[-1].end == pytest.approx(records[-1]["end"], abs=0.7)
    for kind in ("srt", "vtt"):
        rows = [row for row in reader.download(kind).splitlines() if re.match("[a-z]", row)]
        assert letters(*rows) == expected


def test_final_words_are_not_changed(open_page, address, transcript):
    """Once in the log, words stay as they are: the log grows by whole clauses."""
    reader = open_page(address)
    page = reader.page
    page.evaluate("""() => {
        window.changes = [];
        new MutationObserver((records) => {
            for (const { target, removedNodes } of records) {
                const place = target.closest ? target : target.parentElement;
                const isFinal = !place?.closest(".tail");
                if (isFinal && removedNodes.length) window.changes.push(target.className);
            }
        }).observe(document.getElementById("log"), { childList: true, subtree: true });
    }""")
    page.click("#start")
    reader.wait_for_words(len(transcript.words))
    reader.stop()

    assert page.evaluate("window.changes") == []
    assert page.get_attribute("#log", "role") == "log"
    assert set(page.locator("#log .tail:not([aria-hidden=true])").all()) == set()


def test_everything_can_be_done_with_keys(open_page, address):
    """Tab reaches every control, and single keys work outside input fields."""
    reader = open_page(address)
    page = reader.page
    reached = set()
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"scroller", "start", "source", "save", "window", "options"} <= reached
    page.evaluate("document.activeElement.blur()")

    page.keyboard.press("s")
    reader.wait_for_words(2)
    page.keyboard.press("s")
    reader.until(IDLE)
    page.keyboard.press("+")
    assert page.evaluate("document.documentElement.dataset.size") == "4"
    page.keyboard.press("d")
    assert page.locator("#save-dialog").is_visible()
    with page.expect_download():
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.locator("#save-dialog").wait_for(state="hidden")
    page.keyboard.press("o")
    page.locator("[name=keys]").select_option("off")
    page.keyboard.press("Escape")
    page.keyboard.press("d")

    assert not page.locator("#save-dialog").is_visible()


def test_settings_stay_and_the_key_of_the_server_does_not(open_page, serve, digits):
    """Colours are stored in the browser, the key only in the tab; with a key, languages load."""
    with serve(digits) as (address, _):
        reader = open_page(address.removesuffix("/v1"))
        page = reader.page
        page.keyboard.press("t")
        page.click("#start")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.get_by_text("The server does not accept this key.").wait_for()
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        reader.wait_for_words(1)
        reader.stop()
        stored = page.evaluate("[JSON.stringify(localStorage), JSON.stringify(sessionStorage)]")
        page.reload()
        page.click("#options")
        reader.until("document.querySelector('#languages option')?.value === 'en'")

        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert "secret" not in stored[0]
        assert "secret" in stored[1]


def test_a_caption_window_shows_the_newest_words(open_page, address):
    """It is another window of the same browser, with a transparent page for streaming software."""
    reader = open_page(address)
    page = reader.page
    with page.expect_popup() as opened:
        page.click("#window")
    window = opened.value
    page.click("#start")
    window.get_by_text("seven").first.wait_for()
    background = window.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    reader.stop()

    assert background == "rgba(0, 0, 0, 0)"


def test_the_sound_of_a_tab_is_captioned(open_page, address):
    """A shared stream is handled like a microphone."""
    reader = open_page(address)
    page = reader.page
    page.evaluate("""() => {
        const devices = navigator.mediaDevices;
        devices.getDisplayMedia = () => devices.getUserMedia({ audio: true });
    }""")
    page.select_option("#source", "tab")
    page.click("#start")
    reader.wait_for_words(2)
    reader.stop()

    assert letters(*reader.words()).startswith("fourtwo")


def test_a_browser_that_does_not_resample_declares_its_rate(open_page, address):
    """Firefox refuses to resample the microphone, so the page sends the native rate."""
    reader = open_page(address)
    page = reader.page
    page.evaluate("""() => {
        const Native = AudioContext;
        window.AudioContext = class extends Native {
            createMediaStreamSource(stream) {
                const refusal = new DOMException("rates differ", "NotSupportedError");
                if (this.sampleRate === 24000) throw refusal;
                return super.createMediaStreamSource(stream);
            }
        };
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (data) {
            if (typeof data === "string" && data.includes("rate")) window.update = JSON.parse(data);
            return send.call(this, data);
        };
    }""")
    page.click("#start")
    reader.wait_for_words(2)
    reader.stop()

    assert page.evaluate("window.update.session.audio.input.format.rate") in {44_100, 48_000}
    assert letters(*reader.words()).startswith("fourtwo")
