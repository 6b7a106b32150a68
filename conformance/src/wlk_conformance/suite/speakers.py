"""Rules SPK and LANG: who speaks, and in which language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same, check_words, words_of
from wlk_conformance.rules import NotApplicable, rule
from wlk_core import EPS

if TYPE_CHECKING:
    from wlk_conformance.subject import Subject

__all__ = ["SpeakerRules"]

INSTANT = 1e-6  # seconds: what summing floats may do to a clock that is exact


class SpeakerRules:
    """Rules of speaker turns and languages."""

    @rule(
        "SPK-01",
        requires="speaker-turns",
        causes=(
            "new_speaker flushes and drops what came (B08)",
            "the clock is set to the time of the change (B35)",
        ),
    )
    def test_a_turn_returns_what_was_said(self, wlk: Subject) -> None:
        """
        `new_speaker(change)` returns the flushed tokens; the clock is unaffected.

        Audio after change.start already inserted is kept.
        """
        fed = wlk.speech(6, seed=5, tail=0.0)
        expected = wlk.solo(fed)
        for share in (0.4, 1.0):
            driver = wlk.stream()
            driver.insert(fed.audio)
            driver.new_speaker("next", share * fed.seconds)
            wlk.heard(driver.tokens, fed)
            what = f"by a turn at {share * fed.seconds:.2f} s"
            if wlk.material.kind == "coded":
                check_words(fed.words, driver.tokens, what=what)
            late = driver.start_silence().committed
            assert not late, f"new_speaker left {late[0].text!r} for start_silence to return"
            check_same(expected, driver.tokens, what=what, tolerance=0.1)
            driver.feed(fed.audio)
            driver.finish()
            assert abs(driver.processed_up_to - driver.clock) <= INSTANT, (
                f"processed_up_to is {driver.processed_up_to:.3f} s, the clock says "
                f"{driver.clock:.3f} s"
            )

    @rule(
        "SPK-02",
        requires="speaker-turns",
        causes=("a reset at a silence forgets the speaker (B09)",),
    )
    def test_tokens_carry_their_speaker(self, wlk: Subject) -> None:
        """Tokens after it carry the new speaker, before it the old one, across silences."""
        fed = wlk.speech(4, seed=3, lead=0.4)
        driver = wlk.stream()
        turns: list[tuple[float, int | str | None]] = [(0.0, None)]
        for speaker in ("anna", 2, "anna"):
            driver.feed(fed.audio)
            driver.silence(6.0)
            driver.feed(fed.audio)
            driver.new_speaker(speaker)
            turns.append((driver.clock, speaker))
        driver.feed(fed.audio)
        driver.silence(0.3)
        driver.feed(fed.audio)
        driver.finish()
        for token in wlk.heard(driver.tokens, fed):
            expected = [who for since, who in turns if since <= token.start + EPS][-1]
            assert expected == token.speaker, (
                f"{token.text!r} at {token.start:.2f} s is said by {expected!r}, "
                f"came as said by {token.speaker!r}"
            )

    @rule(
        "LANG-01",
        causes=(
            "a forced language is never reported (B42)",
            "the language is detected anew after a silence",
        ),
    )
    def test_languages_are_declared_codes(self, wlk: Subject) -> None:
        """
        `detected_language` is None or a declared code.

        A forced language is reported; it survives silence.
        """
        fed = wlk.speech(4, seed=3)
        driver = wlk.run(fed)
        for token in wlk.heard(driver.tokens, fed):
            assert token.detected_language in {None, *wlk.spec.languages}, (
                f"{token.detected_language!r} is no declared language"
            )
        if not wlk.has("language-forcing"):
            return
        language = "en" if "en" in wlk.spec.languages else wlk.spec.languages[0]
        driver = wlk.stream(language=language)
        for _ in range(2):
            driver.feed(fed.audio)
            driver.silence(6.0)
        driver.feed(fed.audio)
        driver.finish()
        for token in wlk.heard(driver.tokens, fed):
            assert token.detected_language == language, (
                f"{language!r} is forced, {token.text!r} at {token.start:.2f} s came as "
                f"{token.detected_language!r}"
            )

    @rule(
        "LANG-02",
        kinds="S",
        tier="speech",
        requires="language-detection",
        causes=("the model's header scrolls into the text (B37)",),
    )
    def test_the_language_is_detected(self, wlk: Subject) -> None:
        """
        Detection, where declared, is right on the speech clips.

        No header or language word leaks into the text.
        """
        if "language" in wlk.options:
            raise NotApplicable("the language is given by an option")
        fed = wlk.speech(9, seed=18)
        tokens = wlk.heard(wlk.solo(fed), fed)
        languages = {token.detected_language for token in tokens}
        assert languages == {"en"}, f"English digits came as {languages}"
        said = {word for words in [words_of(tokens)] for word in words}
        leaked = said & {"language", "english", "en", "asr", "text", "transcribe"}
        assert not leaked, f"a header leaked into the text: {sorted(leaked)}"
