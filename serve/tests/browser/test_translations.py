"""The caption page and its window on a server that finds speakers and translates."""

from __future__ import annotations

from functools import partial

import pytest

pytest.importorskip("playwright", reason="needs: pip install playwright")
pytest.importorskip("faster_whisper")

from wlk_conformance.testing.annotators import ScriptedDiarizer, ScriptedTranslator
from wlk_core.tokens import SpeakerSpan

pytestmark = pytest.mark.slow
ALL_SECONDS = 60.0  # longer than a run


@pytest.fixture
def translated(serve, digits):
    """Yield the page's address on a server that numbers one speaker and translates to capitals."""
    open_diarizer = partial(ScriptedDiarizer, [SpeakerSpan(0, 0.0, ALL_SECONDS)], max_delay=0.5)
    with serve(
        digits, keys=(), open_diarizer=open_diarizer, open_translator=ScriptedTranslator
    ) as (address, _):
        yield address.removesuffix("/v1")


def test_a_second_language_and_a_given_name_are_on_every_screen(open_page, translated, transcript):
    """The reader names the speaker in the settings; page, window and files show that name."""
    reader = open_page(translated)
    page = reader.page
    with page.expect_popup() as opened:
        page.click("#window")
    window = opened.value
    page.click("#start")
    reader.wait_for_words(len(transcript.words))
    reader.stop()
    reader.until("document.querySelector('#log .speaker')?.textContent === 'Speaker 1'")
    page.click("#log .speaker")
    page.fill("#speakers input", "Anna")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    reader.until("document.querySelector('#log .speaker').textContent === 'Anna'")
    below = page.inner_text("#log")
    captions = [window.inner_text("#speech"), window.inner_text("#translation")]
    spoken = page.get_attribute("#log .text", "lang"), window.get_attribute("#speech p", "lang")
    rows = reader.download("srt")

    assert spoken == ("en", "en")  # a screen reader has a voice for each language
    words = transcript.text.upper().split()
    assert words[-1] in below.split()
    assert "Anna" in captions[0]
    assert captions[1].split()[-1] == words[-1]
    assert f"Anna: {transcript.words[0].text.strip()}" in rows
    assert words[-1] in rows.split()
