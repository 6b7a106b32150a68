"""Rules SPK and LANG: speaker turns and languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.compare import check_clock, words_of
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.suite.scenes import check_alone, check_spoken

if TYPE_CHECKING:
    from wlk_conformance.backend_under_test import BackendUnderTest


class SpeakerRules:
    """Rules of speaker turns and languages."""

    @rule(
        "SPK-01",
        "new_speaker flushes and drops the tokens",
        "the clock is set to the time of the change",
        requires="speaker-turns",
    )
    def test_a_turn_returns_every_word(self, wlk: BackendUnderTest) -> None:
        """
        `new_speaker(change)` returns the flushed tokens; the clock is unaffected.

        Audio after change.start that was already inserted is kept.
        """
        stimulus = wlk.speech(6, seed=5, tail=0.0)
        for share in (0.4, 1.0):
            driver = wlk.stream()
            driver.insert(stimulus.audio)
            driver.new_speaker("next", share * stimulus.seconds)
            wlk.require_tokens(driver.tokens, stimulus)
            what = f"by a turn at {share * stimulus.seconds:.2f} s"
            check_spoken(wlk, stimulus, driver.tokens, what)
            late = driver.start_silence().committed
            assert not late, f"new_speaker left {late[0].text!r} for start_silence to return"
            check_alone(wlk, stimulus, driver, what, tolerance=0.1)
            driver.feed(stimulus.audio)
            driver.finish()
            check_clock(driver.processed_up_to, driver.clock)

    @rule("SPK-02", "a reset at a silence drops the speaker", requires="speaker-turns")
    def test_tokens_carry_their_speaker(self, wlk: BackendUnderTest) -> None:
        """Tokens after a turn carry the new speaker, earlier ones the old, across silences."""
        stimulus = wlk.speech(4, seed=3, lead=0.4)
        driver = wlk.stream()
        for speaker in ("anna", 2, "anna"):
            driver.feed(stimulus.audio)
            driver.silence(6.0)
            driver.feed(stimulus.audio)
            driver.new_speaker(speaker)
        driver.feed(stimulus.audio)
        driver.silence(0.3)
        driver.feed(stimulus.audio)
        driver.finish()
        # The monitor of every stream checks the speaker of each token.
        wlk.require_tokens(driver.tokens, stimulus)

    @rule(
        "LANG-01",
        "a forced language is never reported",
        "the language is detected anew after a silence",
    )
    def test_languages_are_declared_codes(self, wlk: BackendUnderTest) -> None:
        """
        `detected_language` is None or a declared code.

        A forced language is reported; it survives silence.
        """
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.run(stimulus)
        # The monitor of every stream checks the language of each token.
        wlk.require_tokens(driver.tokens, stimulus)
        if not wlk.has("language-forcing"):
            return
        language = "en" if "en" in wlk.spec.languages else wlk.spec.languages[0]
        audio = stimulus.audio
        driver = wlk.play(audio, 6.0, audio, 6.0, audio, language=language)
        wlk.require_tokens(driver.tokens, stimulus)
        driver.reset()  # the language is an argument of the stream, in every life of it
        driver.feed(stimulus.audio)
        driver.finish()
        wlk.require_tokens(driver.tokens, stimulus)

    @rule(
        "LANG-02",
        "the model's header scrolls into the text",
        kinds="S",
        tier="speech",
        requires="language-detection",
    )
    def test_the_language_is_detected(self, wlk: BackendUnderTest) -> None:
        """
        Detection, where declared, is right on the speech clips.

        No header or language word leaks into the text.
        """
        if "language" in wlk.options:
            raise NotApplicable("the language is set by an option")
        stimulus = wlk.speech(9, seed=18)
        tokens = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        languages = {token.detected_language for token in tokens}
        if wlk.speech_source.kind != "open":  # which may be of any language
            assert languages == {"en"}, f"English digits are reported as {languages}"
        header = {"language", "english", "en", "asr", "text", "transcribe"}
        leaked = set(words_of(tokens)) & header - set(stimulus.spoken)
        assert not leaked, f"a header leaked into the text: {sorted(leaked)}"
