"""Rules LIFE: from a new stream to a closed backend."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same, check_times, check_words
from wlk_conformance.material import CodedMaterial, hiss, pause
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.seams import SupportsFaults
from wlk_core import ChangeSpeaker, StreamStats
from wlk_core.errors import StreamClosed
from wlk_core.testing import CELL_SECONDS, CodedToken

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.subject import Subject
    from wlk_core import Backend
    from wlk_core.testing import StreamDriver

__all__ = ["LifeRules"]

INSTANT = 1e-6  # seconds: what summing floats may do to a clock that is exact
CLOSED_WITHIN = 5.0  # seconds
COUNTERS = (
    "encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs", "detokenised_ids",
)  # fmt: skip


class LifeRules:
    """Rules of the life cycle."""

    @rule("LIFE-01", causes=("a prefix or a language token is decoded as text",))
    def test_a_fresh_stream_has_nothing_to_say(self, wlk: Subject) -> None:
        """A fresh processor commits nothing at time 0."""
        driver = wlk.stream()
        for emission in (driver.process(), driver.process(is_last=True), driver.start_silence()):
            assert emission.committed == (), f"it committed {emission.committed}"
            assert (emission.processed_up_to, emission.stable_up_to) == (0.0, 0.0), str(emission)
        assert not driver.processor.get_buffer().tokens

    @rule(
        "LIFE-02",
        kinds="G,O",
        causes=("a rest shorter than a tick or a chunk is never decoded (B17, B27)",),
    )
    def test_finish_flushes_everything(self, wlk: Subject) -> None:
        """`finish()` flushes everything, audio of 0.1 s included."""
        fed = wlk.fed(hiss(0.1))
        driver = wlk.stream()
        driver.insert(fed.audio)
        driver.finish()
        _check_clock(driver, fed.seconds)
        for tail in (0.0, 0.05):
            fed = wlk.speech(4, seed=3, tail=tail)
            driver = wlk.stream()
            driver.insert(fed.audio)
            driver.finish()
            _check_clock(driver, fed.seconds)
            wlk.heard(driver.tokens, fed)
            if wlk.material.kind == "coded":
                check_words(fed.words, driver.tokens, what="by finish alone")

    @rule("LIFE-02", kinds="O", causes=("the model is not padded to its smallest input",))
    def test_finish_flushes_a_tenth_of_a_second(self, wlk: Subject) -> None:
        """A word that is a tenth of a second long comes out at finish."""
        if not isinstance(wlk.material, CodedMaterial):
            raise NotApplicable("no spoken word is that short")
        fed = wlk.fed(wlk.material.script([CodedToken(5, 0, 1)]))
        check_words(fed.words, wlk.run(fed).tokens, what="one cell and finish")

    @rule("LIFE-03", causes=("finish pads and decodes again each time (B24, B25)",))
    def test_a_second_finish_does_nothing(self, wlk: Subject) -> None:
        """A second `finish()` commits nothing and runs no model."""
        fed = wlk.speech(4, seed=3)
        driver = wlk.run(fed)
        wlk.heard(driver.tokens, fed)
        first = driver.records[-1].emission
        before, calls = driver.processor.stats, _calls(wlk.backend)
        for _ in range(3):
            again = driver.finish()
            assert again.committed == (), f"it committed {again.committed[0].text!r} again"
            assert again.processed_up_to == first.processed_up_to
            assert again.stable_up_to == first.stable_up_to
        assert before == driver.processor.stats, "the second finish did work"
        assert calls == _calls(wlk.backend), "the second finish called the engine"

    @rule("LIFE-04", causes=("only finish itself looks at the flag it sets (B24)",))
    def test_a_finished_stream_takes_nothing(self, wlk: Subject) -> None:
        """After finish, insert, process_iter, silence and speaker calls raise StreamClosed."""
        fed = wlk.speech(3, seed=2)
        driver = wlk.run(fed)
        processor = driver.processor
        calls: dict[str, Callable[[], object]] = {
            "insert_audio_chunk": lambda: processor.insert_audio_chunk(fed.audio),
            "process_iter": processor.process_iter,
            "process_iter(is_last=True)": lambda: processor.process_iter(is_last=True),
            "start_silence": processor.start_silence,
            "end_silence": lambda: processor.end_silence(1.0),
        }
        if wlk.has("speaker-turns"):
            change = ChangeSpeaker(1, driver.clock)
            calls["new_speaker"] = lambda: processor.new_speaker(change)  # type: ignore[attr-defined]
        for name, call in calls.items():
            _check_closed(name, call)

    @rule("LIFE-05", causes=("padding is decoded although there is nothing before it (B25)",))
    def test_finish_without_audio_runs_nothing(self, wlk: Subject) -> None:
        """`finish()` without audio: nothing, and no model call."""
        for seconds in (None, 5.0):
            driver = wlk.stream()
            before, calls = driver.processor.stats, _calls(wlk.backend)
            if seconds is not None:
                driver.end_silence(seconds)
            emission = driver.finish()
            assert emission.committed == (), f"it committed {emission.committed[0].text!r}"
            _check_clock(driver, seconds or 0.0)
            assert _counters(before) == _counters(driver.processor.stats), "the model ran"
            assert calls == _calls(wlk.backend), "the engine was called"

    @rule("LIFE-06", causes=("the clock, the speaker or the prompt survive a reset",))
    def test_reset_gives_a_new_stream(self, wlk: Subject) -> None:
        """`reset()` gives the state of a new processor."""
        fed = wlk.speech(4, seed=3)
        expected = wlk.run(fed)
        for is_finished in (False, True):
            driver = wlk.stream()
            driver.end_silence(7.0)
            if wlk.has("speaker-turns"):
                driver.new_speaker("before")
            driver.feed(wlk.speech(6, seed=5).audio, chunk_seconds=0.7)
            if is_finished:
                driver.finish()
            driver.processor.reset()
            stats = driver.processor.stats
            assert stats.audio_seconds == 0, f"{stats.audio_seconds} s of audio after reset"
            assert not driver.processor.get_buffer().tokens, "the hypothesis survived the reset"
            again = type(driver)(driver.processor)
            again.feed(fed.audio)
            again.drain()
            again.finish()
            assert expected.tokens == again.tokens, _unlike(expected, again)
            came, fresh = again.records[-1].emission, expected.records[-1].emission
            assert fresh.processed_up_to == came.processed_up_to
            assert _counters(expected.processor.stats) == _counters(again.processor.stats), (
                "the counters of the reset stream are not those of a new one"
            )

    @rule("LIFE-07", causes=("is_last is never read (B26)",))
    def test_is_last_drains_without_closing(self, wlk: Subject) -> None:
        """`process_iter(is_last=True)` drains like finish without closing."""
        fed = wlk.speech(6, seed=5, tail=0.0)
        driver = wlk.stream()
        driver.insert(fed.audio)
        driver.process(is_last=True)
        _check_clock(driver, fed.seconds)
        finished = wlk.stream()
        finished.insert(fed.audio)
        finished.finish()
        check_same(finished.tokens, driver.tokens, what="is_last against finish")
        wlk.heard(driver.tokens, fed)
        said = len(driver.tokens)
        driver.feed(fed.audio)
        driver.finish()
        _check_clock(driver, 2 * fed.seconds)
        assert len(driver.tokens) > said, "nothing was heard after process_iter(is_last=True)"

    @rule(
        "LIFE-08",
        kinds="O",
        causes=("an end-of-text token resets the whole stream, audio and clock (B05)",),
    )
    def test_a_limit_inside_the_model_keeps_the_stream(self, wlk: Subject) -> None:
        """
        A limit inside the model keeps clock, pending audio, spacing and speaker.

        That is an end-of-text token, a repetition guard or a context limit.
        """
        if not isinstance(wlk.material, CodedMaterial):
            raise NotApplicable("its engine cannot be made to end its text")
        cells = 4
        for digits in (range(1, 11), (7,)):
            ids = [digits[index % len(digits)] for index in range(280)]
            script = [CodedToken(id_, cells * index, 3) for index, id_ in enumerate(ids)]
            fed = wlk.fed(wlk.material.script(script))
            driver = wlk.stream()
            if wlk.has("speaker-turns"):
                driver.new_speaker("one")
            driver.feed(fed.audio)
            driver.finish()
            check_words(fed.words, driver.tokens, what=f"{fed.seconds:.0f} s without a pause")
            check_times(fed.words, driver.tokens, tolerance=CELL_SECONDS)
            speakers = {token.speaker for token in driver.tokens}
            assert speakers == ({"one"} if wlk.has("speaker-turns") else {None}), str(speakers)
            _check_clock(driver, fed.seconds)

    @rule("LIFE-09", causes=("warmup runs through a stream that is in use (B47)",))
    def test_warmup_leaves_no_trace(self, wlk: Subject) -> None:
        """`Backend.warmup()` leaves no trace and raises on failure."""
        fed = wlk.speech(4, seed=3)
        driver = wlk.stream()
        for chunk in fed.chunks(1.0):
            wlk.backend.warmup()
            driver.insert(chunk)
            driver.process()
        driver.drain()
        driver.finish()
        check_same(wlk.solo(fed), driver.tokens, what="with a warmup before every chunk")

    @rule("LIFE-09", kinds="F", causes=("warmup logs its exception and goes on (B47)",))
    def test_a_warmup_that_fails_says_so(self, wlk: Subject) -> None:
        """A warmup whose engine call fails raises."""
        with wlk.faults(*range(1, 6)) as backend:
            before = backend.calls
            try:
                wlk.backend.warmup()
            except Exception as error:  # noqa: BLE001 -- any will do, it must not be lost
                wlk.note(f"warmup raised {type(error).__name__}")
                return
            assert backend.calls == before, "the engine failed and warmup returned"
            raise NotApplicable("warmup calls no engine")

    @rule("LIFE-10", causes=("a thread waits on a queue that nobody feeds again (B48)",))
    def test_close_lets_go(self, wlk: Subject) -> None:
        """
        `close()` releases threads, hooks and caches within 5 s, finished or not.

        A closed backend refuses new processors.
        """
        other = wlk.another_backend()
        fed = wlk.speech(4, seed=3)
        wlk.run(fed, of=other)  # what is started once for all streams is there from here on
        threads = set(threading.enumerate())
        for is_finished in (False, True):
            driver = wlk.stream(of=other)
            idle = driver.processor.stats.state_bytes
            driver.feed(fed.audio)
            if is_finished:
                driver.finish()
            began = monotonic()
            driver.processor.close()
            driver.processor.close()
            _check_threads(threads, began)
            held = driver.processor.stats.state_bytes
            assert held is None or held <= (idle or 0), f"a closed stream holds {held} bytes"
            _check_closed("process_iter", driver.processor.process_iter)
            _check_closed("finish", driver.processor.finish)
            _check_closed("insert_audio_chunk", lambda: driver.insert(fed.audio))  # noqa: B023 -- called here
            _check_closed("start_silence", driver.processor.start_silence)
        other.close()
        other.close()
        _check_closed("create_processor of a closed backend", other.create_processor)
        wlk.fed(pause(0.0))


def _calls(backend: Backend) -> int | None:
    return backend.calls if isinstance(backend, SupportsFaults) else None


def _counters(stats: StreamStats) -> dict[str, int]:
    # A counter that has not begun may be None or 0.
    return {name: getattr(stats, name) or 0 for name in COUNTERS}


def _check_clock(driver: StreamDriver, seconds: float) -> None:
    assert abs(driver.processed_up_to - seconds) <= INSTANT, (
        f"processed_up_to is {driver.processed_up_to:.6f} s, the clock says {seconds:.6f} s"
    )


def _check_closed(name: str, call: Callable[[], object]) -> None:
    try:
        came = call()
    except StreamClosed:
        return
    raise AssertionError(f"{name} was accepted and returned {came!r}")


def _check_threads(before: set[threading.Thread], began: float) -> None:
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, began + CLOSED_WITHIN - monotonic()))
        assert not thread.is_alive(), (
            f"thread {thread.name!r} is alive {CLOSED_WITHIN:g} s after close()"
        )


def _unlike(expected: StreamDriver, came: StreamDriver) -> str:
    check_same(expected.tokens, came.tokens, what="after reset")
    return "after reset the tokens differ in speaker, language or probability"
