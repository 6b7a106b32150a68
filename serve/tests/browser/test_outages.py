"""The caption page in trouble: no word is lost, and one line shows the problem."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright", reason="needs: pip install playwright")
pytest.importorskip("faster_whisper")

pytestmark = pytest.mark.slow
IDLE = "document.documentElement.dataset.phase === 'idle'"
LIVE = "document.documentElement.dataset.phase === 'live'"


def record_sessions(page):
    """Make the page record the type of each socket's first message."""
    page.evaluate("""() => {
        window.firsts = [];
        const Native = WebSocket;
        window.WebSocket = class extends Native {
            constructor(...options) {
                super(...options);
                const note = ({ data }) => window.firsts.push(JSON.parse(data).type);
                this.addEventListener("message", note, { once: true });
            }
        };
    }""")


@pytest.mark.parametrize("seen", [2, 5, 8])
def test_a_cut_in_the_middle_loses_and_doubles_no_word(open_page, proxied, transcript, seen):
    """The session is resumed: audio and events continue from where they broke off."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    record_sessions(page)
    page.click("#start")
    reader.wait_for_words(seen)
    proxied.cut()
    reader.until("window.firsts.length === 2")
    reader.wait_for_words(len(transcript.words))
    reader.stop()

    assert page.evaluate("window.firsts") == ["session.created", "session.resumed"]
    assert "".join(reader.words()) == "".join(transcript.text.split())


def test_audio_is_kept_while_the_server_is_away(open_page, proxied, transcript):
    """The line says that audio is kept, and the words come later."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    record_sessions(page)
    page.click("#start")
    reader.wait_for_words(2)
    proxied.go_down()
    page.get_by_text("The server does not answer. Audio is kept").wait_for()
    reader.until("parseInt(document.getElementById('lag').textContent) >= 3")
    proxied.come_up()
    page.get_by_role("button", name="Try now").click()
    reader.wait_for_words(len(transcript.words))
    reader.stop()

    assert page.evaluate("window.firsts.at(-1)") == "session.resumed"
    assert "".join(reader.words()) == "".join(transcript.text.split())


def test_another_server_gets_the_audio_without_final_words(
    open_page, proxied, serve, digits, transcript
):
    """A restarted server does not know the session; a note in the transcript says so."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    record_sessions(page)
    page.click("#start")
    reader.wait_for_words(3)
    with serve(digits, keys=()) as (other, _):
        proxied.target = int(other.removesuffix("/v1").rpartition(":")[2])
        proxied.cut()
        page.get_by_text("a new one began").first.wait_for()
        reader.wait_for_words(6)
        reader.stop()

    # Other words are not compared: the model emits different ones if it begins in the middle.
    assert page.evaluate("window.firsts.at(-1)") == "session.created"
    assert "".join(reader.words()).startswith("".join(transcript.text.split()[:3]))


def test_a_full_server_is_tried_again(open_page, serve, digits):
    """The line says that the server is full, and Stop ends the attempts."""
    from wlk_serve.app import Limits  # noqa: PLC0415 -- after the skips

    with serve(digits, limits=Limits(max_sessions=1), keys=()) as (address, _):
        first = open_page(address.removesuffix("/v1"))
        first.page.click("#start")
        first.until(LIVE)
        second = open_page(address.removesuffix("/v1"))
        second.page.click("#start")
        second.page.get_by_text("The server is full").wait_for()
        second.stop()
        first.stop()

        assert second.page.evaluate(IDLE)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("NotFoundError", "No microphone was found."),
        ("NotAllowedError", "The browser blocks the microphone."),
        ("NotReadableError", "Another program is using the microphone."),
        ("TypeError", "The browser gives no audio."),
    ],
)
def test_a_microphone_that_cannot_be_opened_has_its_line(open_page, proxied, name, line):
    """After the line, the page is ready for another attempt."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    page.evaluate(f"""() => {{
        const error = new DOMException("no", "{name}");
        navigator.mediaDevices.getUserMedia = async () => {{ throw error; }};
    }}""")
    page.click("#start")
    page.get_by_text(line).wait_for()

    assert page.evaluate(IDLE)


def test_an_insecure_address_has_its_line(open_page, proxied):
    """Browsers hide microphones from insecure pages."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    page.evaluate("Object.defineProperty(window, 'isSecureContext', { value: false })")
    page.click("#start")

    page.get_by_text("https and localhost only").wait_for()

    assert page.evaluate(IDLE)


def test_a_device_that_goes_ends_the_run_with_its_words(open_page, proxied):
    """Unplugging the microphone loses no words."""
    reader = open_page(f"http://127.0.0.1:{proxied.port}")
    page = reader.page
    page.evaluate("""() => {
        const { getUserMedia } = navigator.mediaDevices;
        navigator.mediaDevices.getUserMedia = async (wish) =>
            (window.stream = await getUserMedia.call(navigator.mediaDevices, wish));
    }""")
    page.click("#start")
    reader.wait_for_words(2)
    page.evaluate("window.stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
    reader.until(IDLE)

    page.get_by_text("The microphone is gone.").wait_for()
    assert "".join(reader.words()).startswith("fourtwo")
