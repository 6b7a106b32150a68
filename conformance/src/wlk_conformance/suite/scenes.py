"""Scenes that several rules share: held steps, streams side by side, answers cut short."""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, product
import threading
from typing import TYPE_CHECKING, Any

from wlk_conformance.calls import NO_WAIT, STUCK, ends_within, in_thread, while_held
from wlk_conformance.compare import check_same, check_words, timed_words
from wlk_conformance.rules import NotApplicable
from wlk_conformance.sessions.generated_session import Violation
from wlk_conformance.sessions.reports import COUNTERS
from wlk_conformance.stimuli import joined
from wlk_conformance.testing import StreamDriver, partition
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.calls import Calling
    from wlk_conformance.stimuli import Stimulus
    from wlk_core import ASRToken, StreamStats
    from wlk_core.options import Option
    from wlk_core.streaming import Word

BRIEF = 0.02  # seconds of a chunk, as a browser sends it
STREAMS = 4
MEETING = 0.05  # seconds that an engine call waits at most for a call of another stream
ALL_LIMIT = 120.0  # seconds after which a thread counts as stuck
SEEDS = (26, 27, 28)
WORDS = 12  # in each clip
REPEATS = 3  # of a stream, to see whether an engine varies
FEW = 5  # single words, the shortest ones
#: Seconds between connected words, by whether they are coded: spoken ones need an edge.
CONNECTED = {True: (0.0, 0.0), False: (0.06, 0.1)}
QUIET, LOUD = 0.05, 1.0  # peaks
OVER = 4.0  # peak of sound that was amplified without a limit
RISING = (0.15, 0.5)  # peaks: half and twice as loud as other speech
WORD_ERRORS = 0.1  # share of the words that a model gets wrong, unless its spec declares it
GROSS = 1 / 3  # share of the words; a model that gets more wrong does not recognise them
MANNER: dict[str, Any] = {"gap": (0.1, 0.6), "lead": 1.2}  # of clips of known words
MAX_DELAY = 3.0  # seconds by which text follows its audio, unless a max_delay is declared
DECODE_AGAIN = {"local-agreement", "alignatt"}  # policies that decode the same audio several times
TOLERANCE = 0.2  # seconds: the times of a word may differ if it is committed one call later


@contextmanager
def unless_answers_vary(
    wlk: BackendUnderTest, *stimuli: Stimulus, chunks: Sequence[float] = (1.0,)
) -> Iterator[None]:
    """
    Judge a comparison of streams, unless the engine answers the same audio differently each time.

    An engine that does fails COM-04, and no other rule is blamed.  It is asked only if the
    comparison fails, in streams of the same *stimuli* in the same *chunks*.
    """
    try:
        yield
    except AssertionError:
        for stimulus, seconds in product(stimuli, chunks):
            first = wlk.run(stimulus, chunk_seconds=seconds).tokens
            for _ in range(REPEATS):
                again = wlk.run(stimulus, chunk_seconds=seconds).tokens
                what = f"two runs of {stimulus.recipe} in chunks of {seconds:g} s"
                try:
                    check_same(first, again, what=what)
                except AssertionError as varies:
                    text = f"your engine answers the same audio differently: {varies}"
                    wlk.violations.append(Violation("COM-04", text))
                    raise NotApplicable(
                        "not judged: the engine answers the same audio differently (COM-04)"
                    ) from varies
        raise


def unchanged(word: Word) -> Word:
    """Return *word*, to note what an engine returns without changing it."""
    return word


def insert_in_pieces(driver: StreamDriver, audio: NDArray[np.float32]) -> None:
    """Insert *audio* in chunks of BRIEF, without a step between them."""
    for chunk in partition(audio, BRIEF):
        driver.insert(chunk)


def text_of(words: Iterable[Word]) -> str:
    """Return the text of the words of an answer."""
    return "".join(word.text for word in words)


def texts_of_calls(driver: StreamDriver) -> list[str]:
    """Return the text that each call of a stream committed."""
    return ["".join(token.text for token in each.emission.committed) for each in driver.records]


def check_raises(
    kind: type[Exception], what: str, call: Callable[..., object], *args: Any, **arguments: Any
) -> Exception:
    """Return the error of *kind* that *call* raises; AssertionError if the call is accepted."""
    try:
        result = call(*args, **arguments)
    except kind as error:
        return error
    raise AssertionError(f"{what} was accepted, expected {kind.__name__}; it returned {result!r}")


def check_alone(
    wlk: BackendUnderTest, stimulus: Stimulus, driver: StreamDriver, what: str, **how: float
) -> None:
    """Compare a stream with a run of the same speech alone, in chunks of a second."""
    with unless_answers_vary(wlk, stimulus):
        check_same(wlk.solo(stimulus), driver.tokens, what=what, **how)


def check_spoken(
    wlk: BackendUnderTest, stimulus: Stimulus, tokens: Sequence[ASRToken], what: str
) -> None:
    """Assert that *tokens* spell the words of *stimulus*, if these are known exactly."""
    if wlk.is_coded:
        check_words(stimulus.words, tokens, what=what)


def counted(stats: StreamStats) -> dict[str, int]:
    """Return the work counters; one that is None counts as 0."""
    return {name: getattr(stats, name) or 0 for name in COUNTERS}


def exclusive_calls(
    wlk: BackendUnderTest, driver: StreamDriver, audio: NDArray[np.float32]
) -> dict[str, Callable[[], object]]:
    """Return the calls that a finished, broken or closed stream must refuse, by name."""
    calls: dict[str, Callable[[], object]] = {
        "insert_audio_chunk": partial(driver.insert, audio),
        "insert_audio_chunk without samples": partial(driver.insert, audio[:0]),
        "process_iter": driver.process,
        "process_iter(is_last=True)": partial(driver.process, is_last=True),
        "start_silence": driver.start_silence,
        "end_silence": partial(driver.end_silence, 1.0),
    }
    if wlk.has("speaker-turns"):
        calls["new_speaker"] = partial(driver.new_speaker, 1)
    return calls


def returns_promptly(call: Callable[[], object], *, name: str) -> None:
    """Make *call* on a new thread; AssertionError if it waits for the running step."""
    calling = in_thread(call)
    within = f"within {NO_WAIT:g} s while a step ran"
    assert ends_within(NO_WAIT, calling), f"{name} did not return {within}"
    calling.result()


def flushes_of(wlk: BackendUnderTest) -> dict[str, Callable[[StreamDriver], object]]:
    """Return the calls that end an utterance, by name."""
    flushes: dict[str, Callable[[StreamDriver], object]] = {
        "start_silence": StreamDriver.start_silence,
        "process_iter(is_last=True)": lambda driver: driver.process(is_last=True),
        "finish": StreamDriver.finish,
    }
    if wlk.has("speaker-turns"):
        flushes["new_speaker"] = lambda driver: driver.new_speaker(1)
    return flushes


def while_call_runs(
    wlk: BackendUnderTest, call: Callable[[], object], act: Callable[[], None]
) -> BaseException | None:
    """
    Make *call* on a new thread, and *act* on this thread while the engine is held.

    Returns what the call raised, None if it returned; see `while_held`.
    """
    faults = wlk.engine_calls
    calling = while_held(call, act, None if faults is None else faults.held)
    assert calling.done(), f"the call did not end within {STUCK:g} s, and is in {calling.place}"
    return calling.exception()


def while_a_step_runs(
    wlk: BackendUnderTest,
    driver: StreamDriver,
    act: Callable[[], None],
    *,
    may_raise: tuple[type[Exception], ...] = (),
) -> None:
    """
    Call process_iter on a new thread, and *act* on this thread while the engine is held.

    Raises what either raised, except for what the step *may_raise*.
    """
    error = while_call_runs(wlk, driver.process, act)
    if error is not None and not isinstance(error, may_raise):
        raise error


def begin_during(
    wlk: BackendUnderTest, step: Callable[[], object], call: Callable[[], object], *, what: str
) -> None:
    """
    Begin *call* on a new thread while *step* runs; AssertionError if either does not end.

    *step* is a call of a stream that runs the engine, such as `process_iter` or `finish`.
    The call may wait for the engine, which goes on after MEETING.
    """
    begun: list[Calling] = []

    def begin() -> None:
        begun.append(in_thread(call))
        wait(begun, MEETING)

    faults = wlk.engine_calls
    stepping = while_held(step, begin, None if faults is None else faults.held)
    (other,) = begun
    if not ends_within(STUCK, other):
        how = "has ended" if stepping.done() else f"waits in {stepping.place}"
        raise AssertionError(
            f"{what} did not end {STUCK:g} s after the step of a stream: a deadlock; it waits in "
            f"{other.place}, and the step {how}"
        )
    assert stepping.done(), (
        f"a step did not end {STUCK:g} s after {what}: a deadlock; it waits in {stepping.place}"
    )
    stepping.result()
    other.result()


def different_speech(wlk: BackendUnderTest, streams: int = STREAMS) -> list[Stimulus]:
    """Return speech of different lengths and words for each of so many streams."""
    return [wlk.speech(4 + index, seed=50 + index) for index in range(streams)]


def check_solo(
    wlk: BackendUnderTest, stimuli: Sequence[Stimulus], drivers: Sequence[StreamDriver], how: str
) -> None:
    """Compare each stream with a run of the same speech alone; *how* goes into the message."""
    for number, (stimulus, driver) in enumerate(zip(stimuli, drivers, strict=True), 1):
        what = f"stream {number} of {len(stimuli)}, {how}, against a solo run"
        wlk.require_tokens(wlk.solo(stimulus), stimulus)
        wlk.recipes.remove(stimulus.recipe)
        wlk.log_stimulus(stimulus)  # last, because the report shows the last recipes
        check_alone(wlk, stimulus, driver, what, tolerance=0.1)


def run_together(calls: Sequence[Callable[[], object]]) -> None:
    """Run all calls at once, each on a fresh thread; raise the first exception of a call."""
    begin = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        begin.wait(ALL_LIMIT)
        call()

    running = [in_thread(partial(run, call)) for call in calls]
    assert ends_within(ALL_LIMIT, *running), (
        f"calls of {len(calls)} threads did not return within {ALL_LIMIT:g} s, and are in "
        + ", ".join(calling.place for calling in running if not calling.done())
    )
    for calling in running:
        calling.result()


def word_error_rate(wlk: BackendUnderTest) -> float:
    """Return the share of words by which two decodings of the same speech may differ."""
    return wlk.bounds.get("wer", WORD_ERRORS)


def known_clips(wlk: BackendUnderTest) -> Iterator[Stimulus]:
    """Yield clips of words that models are declared to recognise."""
    for seed in SEEDS:
        yield wlk.speech(WORDS, seed=seed, **MANNER)


def unusual_clips(wlk: BackendUnderTest) -> dict[str, list[Stimulus]]:
    """
    Return clips of known words as other clips do not have them, by how they are spoken.

    Levels are only for other audio than coded, whose samples cannot be scaled.
    """
    speech = wlk.speech_source.speech
    words = [
        speech(1, seed=seed, digits=(digit,), gap=(0.0, 0.0), lead=0.0, tail=0.0)
        for seed, digit in product(SEEDS, range(10))
    ]
    lone = sorted(words, key=lambda word: word.seconds)[:FEW]
    clips = {
        "with hardly a pause": [speech(WORDS, seed=29, gap=CONNECTED[wlk.is_coded])],
        "in threes, with seconds of zeros between": [
            speech(WORDS, seed=30, gap=(1.8, 2.6), burst=3, lead=2.0).with_zeros()
        ],
        "each alone in its stream, without silence around it": lone,
    }
    if not wlk.is_coded:
        usual = speech(WORDS // 2, seed=31)
        clips |= {"quietly": [usual.scaled(QUIET)], "loudly": [usual.scaled(LOUD)]}
    for stimulus in chain.from_iterable(clips.values()):
        wlk.log_stimulus(stimulus)
    return clips


def rising(wlk: BackendUnderTest, count: int, *, seed: int) -> Stimulus:
    """
    Return *count* words softly and as many loudly, without scaling them if they are coded.

    What adapts to the loudness of earlier audio takes the soft ones for noise.
    """
    parts = [wlk.speech_source.speech(count, seed=seed) for _ in RISING]
    if not wlk.is_coded:
        parts = [part.scaled(peak) for part, peak in zip(parts, RISING, strict=True)]
    return wlk.log_stimulus(joined(parts))


def variant_streams(
    wlk: BackendUnderTest, count: int, **how: Any
) -> Iterator[tuple[str, StreamDriver, Stimulus]]:
    """
    Yield each variant of a backend that its model has: its name, a stream, and speech for it.

    The speech has *count* words, or more for a policy that needs more audio for a step.
    """
    for name, arguments in wlk.variants.items():
        try:
            driver = wlk.stream(**arguments)
        except OptionError:  # not every model has every option of its backend
            continue
        yield name, driver, wlk.speech_for(arguments, count, **how)


def stream_option(wlk: BackendUnderTest, name: str) -> tuple[Option, list[dict[str, Any]]]:
    """
    Return a stream option that the run does not set, and the policies to try it with.

    Raises NotApplicable if there is no such option, or the chosen policy does not take it.
    """
    option = next((option for option in wlk.spec.all_options if option.name == name), None)
    if option is None or option.scope != "stream" or name in wlk.options:
        raise NotApplicable(f"no option {name} is declared for streams", "not declared")
    policies = policies_of(wlk, option)
    if not policies:
        raise NotApplicable(f"policy {wlk.policy} has no option {name}", "not declared")
    return option, policies


def policies_of(wlk: BackendUnderTest, option: Option) -> list[dict[str, Any]]:
    """Return the policies to try a stream option with, as arguments of streams."""
    if not (option.policies or wlk.spec.policies):
        return [{}]
    policies: list[dict[str, Any]] = []
    for policy in option.policies or wlk.spec.policies:
        if policy == wlk.options.get("policy", policy):
            with suppress(OptionError):  # not every model has every policy of its backend
                wlk.stream(policy=policy)
                policies.append({"policy": policy})
    return policies


def varied(wlk: BackendUnderTest) -> dict[str, tuple[Stimulus, tuple[ASRToken, ...]]]:
    """Return a clip of known words and its tokens with each of the variants, by name; cached."""

    def run() -> dict[str, tuple[Stimulus, tuple[ASRToken, ...]]]:
        runs: dict[str, tuple[Stimulus, tuple[ASRToken, ...]]] = {}
        for name, driver, stimulus in variant_streams(wlk, WORDS, steps=2, seed=SEEDS[0], **MANNER):
            driver.feed(stimulus.audio)
            driver.end()
            runs[name] = (stimulus, driver.tokens)
        return runs

    runs = wlk.cached("varied", run)
    for stimulus, _ in runs.values():
        wlk.log_stimulus(stimulus)  # for the report, also if the runs are those of another rule
    return runs


def feed_and_find_cut(
    wlk: BackendUnderTest, driver: StreamDriver, stimulus: Stimulus
) -> tuple[float, float]:
    """
    Run *stimulus* to its end; return the stream times between which a cut answer may lose words.

    A policy that decodes its audio again loses none.  A natively streaming model loses the words
    that it would have emitted in the cut call, which may lie `max_delay` back.
    """
    faults = wlk.faults
    lost = (0.0, 0.0)
    cuts = faults.cut_count
    for chunk in stimulus.chunks(1.0):
        first, so_far = driver.processed_up_to, faults.cut_count
        driver.insert(chunk)
        driver.drain()
        if faults.cut_count > so_far:
            lost = (first - (wlk.max_delay or MAX_DELAY), driver.processed_up_to)
    driver.finish()
    if faults.cut_count == cuts:
        raise NotApplicable("its answers cannot be cut short (see SupportsEngineCalls)")
    return (0.0, 0.0) if wlk.policy in DECODE_AGAIN else lost


def check_around(
    expected: Sequence[ASRToken],
    actual: Sequence[ASRToken],
    lost: tuple[float, float],
    *,
    what: str,
    word_errors: float,
) -> None:
    """
    Assert that the words are the same at the same times, except those in the span *lost*.

    A share of *word_errors* of them may differ as well, because after a cut the model decodes other
    audio, and QUAL judges its mistakes.
    """
    spoken, committed = timed_words(expected), timed_words(actual)
    missing = list(spoken)
    for word, start in committed:  # by time too, because a model may have one word only
        same = (other for other in missing if other[0] == word)
        if match := next((at for at in same if abs(start - at[1]) <= TOLERANCE), None):
            missing.remove(match)
    excused = sum(lost[0] <= start < lost[1] for _, start in spoken)
    allowed = word_errors * len(spoken) + excused
    differing = max(len(spoken), len(committed)) - (len(spoken) - len(missing))
    assert differing <= allowed, (
        f"{what}: {differing} of {len(spoken)} words differ, {allowed:.0f} allowed"
    )
