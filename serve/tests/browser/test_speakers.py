"""The caption page on a server whose diarizer finds speakers after their words."""

from __future__ import annotations

from functools import partial

import pytest

pytest.importorskip("playwright", reason="needs: pip install playwright")
pytest.importorskip("faster_whisper")

from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.tokens import SpeakerSpan

pytestmark = pytest.mark.slow
ALL_SECONDS = 60.0  # longer than a run
# Record what a screen reader reads: additions to the log, except in parts that are off.
NOTE_WHAT_IS_READ = """() => {
    window.read = [];
    const seen = new Set();
    new MutationObserver(() => {
        for (const clause of document.querySelectorAll("#log .clause")) {
            if (seen.has(clause)) continue;
            seen.add(clause);
            const isRead = clause.closest("[aria-live]").ariaLive === "polite";
            const isHidden = clause.closest("[aria-hidden=true]");
            if (isRead && !isHidden) window.read.push(clause.textContent);
        }
    }).observe(document.getElementById("log"), { childList: true, subtree: true });
}"""
LINES = """[...document.querySelectorAll("#log .line:not([hidden])")].map((line) => [
    line.querySelector(".speaker")?.textContent ?? null,
    line.querySelector(".text").textContent.replaceAll(/\\s/g, ""),
])"""


@pytest.fixture
def change(transcript):
    """Return the time, in the middle of the words, at which the speaker changes."""
    words = transcript.words
    return words[len(words) // 2].start


@pytest.fixture
def diarized(serve, digits, change):
    """Return a function that yields the address of a server with a scripted diarizer."""

    def diarized(max_delay):
        spans = [SpeakerSpan("anna", 0.0, change), SpeakerSpan("bert", change, ALL_SECONDS)]
        open_diarizer = partial(ScriptedDiarizer, spans, max_delay=max_delay)
        return serve(digits, keys=(), open_diarizer=open_diarizer)

    return diarized


@pytest.mark.parametrize("max_delay", [0.5, 2 * ALL_SECONDS], ids=["during the run", "at its end"])
def test_late_speakers_divide_the_lines_and_no_word_is_lost_doubled_or_read_again(
    open_page, diarized, transcript, max_delay
):
    """The second speaker only becomes certain at the end of the audio, which Stop waits for."""
    with diarized(max_delay) as (address, _):
        reader = open_page(address.removesuffix("/v1"))
        page = reader.page
        page.evaluate(NOTE_WHAT_IS_READ)
        page.click("#start")
        reader.wait_for_words(len(transcript.words))
        reader.stop()
        reader.until(f"{LINES}.every(([speaker]) => speaker)")
        lines = page.evaluate(LINES)
        rows = reader.download("txt").splitlines()
        voices = reader.download("vtt")
        read = page.evaluate("window.read")

    expected = "".join(transcript.text.split())
    speakers = [speaker for speaker, _ in lines]
    assert set(speakers) == {"anna", "bert"}
    assert sorted(speakers) == speakers
    assert "".join(text for _, text in lines) == expected
    assert "".join("".join(read).split()) == expected
    assert "".join("".join(row.partition(": ")[2] for row in rows).split()) == expected
    assert [row.partition(":")[0] for row in rows] == speakers
    assert "<v anna>" in voices
    assert "<v bert>" in voices
