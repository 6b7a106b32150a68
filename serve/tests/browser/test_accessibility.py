"""The caption page under axe-core, in every colour and with each dialog open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs: pip install playwright")
pytest.importorskip("faster_whisper")

AXE = os.environ.get("WLK_AXE", "")  # path of axe.min.js, which nox -s 'clients(browser)' fetches
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE, reason="needs axe-core; run: nox -s 'clients(browser)'"),
]
THEMES = ("light", "dark", "contrast")
SPOKEN = """async () => {
    const { Transcript } = await import("/page/transcript.js");
    const { Renderer } = await import("/page/renderer.js");
    const { speakerFields } = await import("/page/panels.js");
    const transcript = new Transcript();
    const log = document.getElementById("log");
    const words = (text, start, speaker) => text.split(" ").map((word, i) => (
        { word, start: start + i / 3, end: start + i / 3 + 0.3, confidence: 0.9, speaker }));
    ["0", "1", "2", "3", "4", "5"].forEach((speaker, i) => {
        const delta = "All of these words are final.";
        const records = words(delta, 9 * i, speaker);
        transcript.apply({ type: "x.delta", item_id: i, delta, words: records });
        transcript.apply({ type: "x.completed", item_id: i });
        const [language, text] = Object.entries({ de: "Guten Morgen.", ar: "هذا نص" })[i % 2];
        transcript.apply({ type: "wlk.translation", start: 9 * i, end: 9 * i + 2, text, language });
    });
    transcript.rename("1", "Anna Maria of the committee");
    const text = "these may change";
    const pending = { type: "x.hypothesis", item_id: 9, text, words: words(text, 60) };
    transcript.apply(pending);
    transcript.note("3 s are missing.");
    transcript.apply(pending);
    new Renderer(log).draw(transcript);
    document.getElementById("intro").hidden = true;
    document.getElementById("message").textContent = "The server cannot keep up.";
    document.getElementById("newest").hidden = document.getElementById("retry").hidden = false;
    speakerFields(transcript, () => {});
}"""


@pytest.fixture
def address(serve, digits):
    """Return the address of a server that needs no key."""
    with serve(digits, keys=()) as (address, _):
        yield address.removesuffix("/v1")


def violations(page):
    """Return axe-core's findings: each rule and the elements that violate it."""
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [(item["id"], [node["html"] for node in item["nodes"]]) for item in result["violations"]]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("languages", ["both", "speech", "translation"])
def test_a_full_page_has_no_finding(open_page, address, theme, languages):
    """Axe checks contrast, names, roles and landmarks, with every kind of content on the page."""
    page = open_page(address).page
    settings = f"{{theme: '{theme}', languages: '{languages}'}}"
    page.evaluate(f"localStorage['wlk-captions'] = JSON.stringify({settings})")
    page.reload()
    page.evaluate(SPOKEN)

    assert violations(page) == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["save", "options", "key"])
def test_a_dialog_has_no_finding(open_page, address, name, theme):
    """The page behind an open dialog is inert."""
    page = open_page(address).page
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    page.evaluate(SPOKEN)
    page.evaluate(f"document.getElementById('{name}-dialog').showModal()")

    assert violations(page) == []


def test_the_caption_window_has_no_finding(open_page, address):
    """Its words have enough contrast, on their own dark background."""
    page = open_page(f"{address}/page/captions.html").page
    page.evaluate("""() => new BroadcastChannel("wlk-captions").postMessage(
        { lines: [{ speaker: "A", solid: "four two", pending: " seven",
            language: "en", translation: "vier zwei", target: "de" }] })""")
    page.get_by_text("four two").wait_for()

    assert violations(page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_text_that_is_read_for_long_has_a_contrast_of_seven(open_page, address, theme):
    """This includes words that may still change, times and speakers."""
    page = open_page(address).page
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    page.evaluate(SPOKEN)
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    result = page.evaluate(
        "axe.run('#log', { runOnly: ['color-contrast-enhanced'], rules: "
        "{ 'color-contrast-enhanced': { enabled: true } } })"
    )

    assert [node["html"] for item in result["violations"] for node in item["nodes"]] == []
    assert result["passes"]


def test_motion_can_be_reduced(open_page, address):
    """Nothing moves by itself if the reader prefers reduced motion."""
    page = open_page(address, reduced_motion="reduce").page
    script = "getComputedStyle(document.querySelector('#level span')).transitionDuration"

    assert page.evaluate(script) == "0s"


@pytest.mark.parametrize("width", [320, 360, 1280])
def test_no_width_needs_scrolling_sideways(open_page, address, width):
    """This holds even for the largest text."""
    page = open_page(address, viewport={"width": width, "height": 640}).page
    page.evaluate(SPOKEN)
    page.evaluate("document.documentElement.dataset.size = '6'")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getElementById('page').scrollWidth") <= width


@pytest.mark.parametrize("width", [360, 1280])
def test_a_notice_with_a_button_covers_no_word(open_page, address, width):
    """At the end of the page, the newest words are above it."""
    page = open_page(address, viewport={"width": width, "height": 640}).page
    page.evaluate(SPOKEN)
    below = page.evaluate("""() => {
        document.getElementById("scroller").scrollTop = 1e6;
        const [line] = [...document.querySelectorAll("#log .line")].slice(-1);
        const edge = (element, side) => element.getBoundingClientRect()[side];
        return edge(line, "bottom") - edge(document.getElementById("notice"), "top");
    }""")

    assert below <= 0
