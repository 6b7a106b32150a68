"""Rules ISO: many streams on one model."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from itertools import count, pairwise, product
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wlk_conformance.compare import check_clock, check_same, check_texts
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.suite.scenes import (
    MEETING,
    REPEATS,
    begin_during,
    check_alone,
    check_raises,
    check_solo,
    counted,
    different_speech,
    exclusive_calls,
    flushes_of,
    run_together,
    texts_of_calls,
    unless_answers_vary,
    while_a_step_runs,
    while_call_runs,
)
from wlk_conformance.testing import StreamDriver
from wlk_core.errors import BackendError, ConcurrentCallError, OptionError, StreamClosed
from wlk_core.online.engine_calls import EngineCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_core import ASRToken, Backend

TURNS = 100  # calls of functions, at the beginning of an engine call, at which threads take turns
DEPTH = 5  # attributes deep: backend, engine, model, tokenizer and one more
LIMIT = 20_000  # objects visited, because a framework's graph may be endless
BATCHED = 0.1  # seconds of a chunk; less than any engine decodes at once
AHEAD = (10, 0, 15, 5, 20, 8)  # chunks that each stream of a batch is ahead, in no order
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


class SharingRules:
    """Rules of streams that share a model."""

    @rule("ISO-01", "decoder state or a prompt is kept on the backend")
    def test_interleaved_streams_equal_solo_runs(self, wlk: BackendUnderTest) -> None:
        """Interleaved streams return the tokens that each returns when it runs alone."""
        stimuli = different_speech(wlk)
        drivers = [wlk.stream() for _ in stimuli]
        pieces = [stimulus.chunks(0.7) for stimulus in stimuli]
        for turn in range(max(map(len, pieces))):
            for driver, chunks in zip(drivers, pieces, strict=True):
                driver.feed(chunks[turn] if turn < len(chunks) else chunks[0][:0])
        for driver in drivers:
            driver.finish()
        check_solo(wlk, stimuli, drivers, "interleaved")

    @rule(
        "ISO-02",
        "hooks or caches of one stream are used by a forward pass of another",
        "a buffer of the engine is filled by one stream and read by another",
    )
    def test_threaded_streams_equal_solo_runs(self, wlk: BackendUnderTest) -> None:
        """Streams on several threads return what each does alone, even if engine calls overlap."""
        stimuli = different_speech(wlk)
        other = wlk.another_backend()  # so that what is made on first use is made now
        drivers = [wlk.stream(of=other) for _ in stimuli]
        threads = _LockStep(len(drivers))

        def run(driver: StreamDriver, stimulus: Stimulus) -> None:
            try:
                driver.feed(stimulus.audio, chunk_seconds=0.5)
                driver.finish()
            finally:
                threads.end()

        faults = EngineFaults.of_backend(other)
        if faults is None:
            wlk.notes.append("interleaved by chance: the engine cannot be held")
        with nullcontext() if faults is None else faults.held(threads.begin_call):
            run_together([partial(run, *pair) for pair in zip(drivers, stimuli, strict=True)])
        check_solo(wlk, stimuli, drivers, "threaded")

    @rule(
        "ISO-02",
        "two locks are taken in one order by a step, in another at the end of a stream",
        since="2.0",
    )
    def test_streams_begin_and_end_while_another_decodes(self, wlk: BackendUnderTest) -> None:
        """A stream that is opened, reset and closed while another one decodes blocks neither."""
        stimulus = wlk.speech(4, seed=3)
        decoding = wlk.stream(stimulus.audio)

        def begin_and_end() -> None:
            opened = wlk.backend.create_processor(**wlk.stream_options)
            opened.insert_audio_chunk(stimulus.audio)
            opened.reset()
            opened.close()

        what = "opening, resetting and closing another stream"
        begin_during(wlk, decoding.process, begin_and_end, what=what)
        decoding.end()
        check_alone(wlk, stimulus, decoding, "while other streams begin and end", tolerance=0.1)

    @rule("ISO-03", "a device stream or a cache belongs to the thread that made it")
    def test_every_call_may_come_from_a_new_thread(self, wlk: BackendUnderTest) -> None:
        """Every call of a stream works from a new thread, one call at a time."""
        if wlk.spec.thread_affinity == "same-thread":
            raise NotApplicable("thread_affinity is declared as same-thread", "not declared")
        stimulus = wlk.speech(6, seed=5)
        driver = wlk.stream()
        for chunk in stimulus.chunks(1.0):
            run_together([partial(driver.insert, chunk)])
            run_together([driver.process])
            run_together([driver.processor.get_buffer])
        run_together([driver.drain])
        run_together([driver.finish])
        check_alone(wlk, stimulus, driver, "each call from a new thread")
        run_together([driver.processor.close])

    @rule("ISO-04", "layers are replaced during a call and put back after it")
    def test_the_model_is_not_changed(self, wlk: BackendUnderTest) -> None:
        """
        The shared model is not mutated, not even by exceptions.

        Module ids, hook counts and parameter names are the same before, between and after calls.
        """
        stimulus = wlk.speech(4, seed=3)
        wlk.run(stimulus)  # creates what is created on first use
        before = fingerprint(wlk.backend)
        driver = wlk.stream()
        driver.feed(stimulus.audio)
        _check_unchanged(before, wlk, "between two calls")
        calls = {"process_iter": StreamDriver.process, **flushes_of(wlk)}
        for name, call in calls.items():
            looking = partial(_check_unchanged, before, wlk, f"in {name}")
            if error := while_call_runs(wlk, partial(call, wlk.stream(stimulus.audio)), looking):
                raise error
        driver.finish()
        driver.processor.close()
        _check_unchanged(before, wlk, "after a stream")
        if wlk.engine_calls is None:
            return
        for is_after, (name, call) in product((False, True), calls.items()):
            with wlk.faults.failing((1,), after=is_after), suppress(BackendError):
                call(wlk.stream(stimulus.audio))
            _check_unchanged(before, wlk, f"after an exception in {name}")

    @rule("ISO-05", "each stream writes its options to the backend", requires="language-forcing")
    def test_the_language_belongs_to_the_stream(self, wlk: BackendUnderTest) -> None:
        """Language and task belong to the stream, not to the backend."""
        languages: list[str] = []  # two that can be forced, or the only one
        for code in dict.fromkeys(("en", *wlk.spec.languages)):
            with suppress(OptionError):
                wlk.stream(language=code)
                languages.append(code)
            if len(languages) == 2:
                break
        assert languages, "language-forcing is declared, but no declared language is accepted"
        stimulus = wlk.speech(4, seed=3)
        calls: list[dict[str, Any]] = [{"language": code} for code in languages]
        calls += [{"language": None}, {"language": languages[0]}]
        if wlk.has("translation"):
            with suppress(OptionError):  # not every model of a backend that translates does
                wlk.stream(language=languages[0], task="translate")
                calls.append({"language": languages[0], "task": "translate"})
        # Each on its own backend, because a language left on an engine affects all later calls.
        expected = [wlk.run(stimulus, of=wlk.another_backend(), **c).tokens for c in calls]
        drivers = [wlk.stream(**call) for call in calls]
        for chunk in stimulus.chunks(1.0):
            for driver in drivers:
                driver.feed(chunk)
        for call, tokens, driver in zip(calls, expected, drivers, strict=True):
            driver.end()
            # The monitor of every stream checks the language of each token.
            check_same(tokens, driver.tokens, what=f"{call} beside other streams")
            alone = {token.detected_language for token in tokens}
            beside = {token.detected_language for token in driver.tokens}
            assert beside == alone, f"{call} is reported as {beside}, but as {alone} without others"
        wlk.require_tokens(drivers[0].tokens, stimulus)

    @rule(
        "ISO-05",
        "opening a stream sets its options on the engine",
        "the options of the first stream are kept for the others",
        since="2.0",
    )
    def test_the_options_belong_to_the_stream(self, wlk: BackendUnderTest) -> None:
        """Policy and options do too: opening a stream with other ones changes no other stream."""
        if not wlk.variants:
            raise NotApplicable("streams have no option with another value to try", "not declared")
        stimulus = wlk.speech(6, seed=5)
        wlk.require_tokens(wlk.solo(stimulus), stimulus)
        first, *rest = stimulus.chunks(0.5)
        run = partial(wlk.run, stimulus, chunk_seconds=0.5)
        undisturbed = texts_of_calls(run())

        def check(driver: StreamDriver, how: str) -> None:
            check_alone(wlk, stimulus, driver, how, tolerance=0.1)
            texts = texts_of_calls(driver)
            # An engine that answers in its own time may commit at other calls.
            if texts != undisturbed and all(
                texts_of_calls(run()) == undisturbed for _ in range(REPEATS)
            ):
                check_texts(undisturbed, texts, what=f"what each call commits, {how}")

        other = wlk.another_backend()
        for arguments in reversed(wlk.variants.values()):
            with suppress(OptionError):  # not every model has every option of its backend
                wlk.stream(of=other, **arguments).feed(first)
        check(run(of=other), "on a backend whose first streams had other options")
        # A reset gives a new stream with the old options; LIFE-06 judges it without other streams.
        usual, work = _after_reset(wlk.stream(), stimulus)
        _check_two_values(wlk, stimulus)
        for name, arguments in wlk.variants.items():
            driver = wlk.stream()
            driver.feed(first)
            with suppress(OptionError):
                wlk.stream(**arguments).feed(first)
            for chunk in rest:
                driver.feed(chunk)
            driver.end()
            check(driver, f"beside a stream with {name}")
            tokens, again = _after_reset(driver, stimulus)
            with unless_answers_vary(wlk, stimulus):
                check_same(usual, tokens, what=f"after a reset beside a stream with {name}")
            if again != work:  # an engine that answers in its own time may work differently
                _, usually = _after_reset(wlk.stream(), stimulus)
                assert usually != work, f"{work} before a stream with {name}, {again} beside it"

    @rule(
        "ISO-05",
        "answers are cached by their audio, whatever the options of the stream",
        since="2.0",
    )
    def test_options_hold_on_audio_heard_before(self, wlk: BackendUnderTest) -> None:
        """An option has its effect on audio, too, that another stream had without it."""
        if not wlk.variants:
            raise NotApplicable("streams have no option with another value to try", "not declared")
        fresh = wlk.another_backend()
        for number, (name, arguments) in enumerate(wlk.variants.items()):
            # Another one for each, because an answer to one option may serve for another, too.
            stimulus = wlk.speech_for(arguments, 4, seed=60 + number)

            def answer(of: Backend, stimulus: Stimulus = stimulus, **changes: Any) -> object:
                driver = wlk.run(stimulus, of=of, **changes)
                return driver.tokens, counted(driver.processor.stats)

            with suppress(OptionError), unless_answers_vary(wlk, stimulus):
                plain, changed = answer(wlk.backend), answer(wlk.backend, **arguments)
                assert changed != plain or answer(fresh, **arguments) == plain, (
                    f"on audio that another stream had without it, {name} changes neither words "
                    "nor work, although it does on a new backend"
                )

    @rule("ISO-06", "a lock makes the second call wait, or both run and share a buffer")
    def test_overlapping_calls_are_refused(self, wlk: BackendUnderTest) -> None:
        """
        Exclusive calls that overlap raise ConcurrentCallError and change nothing.

        `close()` from another thread takes effect after the step, and a flush that it cuts short
        raises StreamClosed; two backends in one process work.
        """
        stimulus = wlk.speech(8, seed=7)
        wlk.faults  # noqa: B018 -- NotApplicable if the engine cannot be held
        for name, running in {"process_iter": StreamDriver.process, **flushes_of(wlk)}.items():
            driver = wlk.stream(stimulus.audio)
            calls = {
                other: call
                for other, call in exclusive_calls(wlk, driver, stimulus.audio).items()
                if not other.startswith("insert_audio_chunk")  # which may overlap
            }
            calls |= {"finish": driver.finish, "reset": driver.processor.reset}

            def overlap(name: str = name, calls: Mapping[str, Any] = calls) -> None:
                for other, call in calls.items():
                    check_raises(ConcurrentCallError, f"{other} during {name}", call)

            error = while_call_runs(wlk, partial(running, driver), overlap)
            if error is not None:
                raise error
            driver.end()
            undisturbed = wlk.stream(stimulus.audio)
            running(undisturbed)
            undisturbed.end()
            with unless_answers_vary(wlk, stimulus):
                what = f"after calls during {name} were refused"
                check_same(undisturbed.tokens, driver.tokens, what=what, tolerance=0.1)

    @rule("ISO-06", "close frees what a running step is using")
    def test_close_waits_for_the_step(self, wlk: BackendUnderTest) -> None:
        """A close from another thread ends the stream after its step and releases its state."""
        stimulus = wlk.speech(6, seed=5)
        idle = wlk.stream().processor.stats.state_bytes
        driver = wlk.stream(stimulus.audio)
        while_a_step_runs(wlk, driver, driver.processor.close, may_raise=(StreamClosed,))
        check_raises(StreamClosed, "process_iter after close()", driver.process)
        held = driver.processor.stats.state_bytes
        assert held is None or held <= (idle or 0), f"closed during a step, it holds {held} bytes"

    @rule("ISO-06", "a flush that ends early returns what it has, like a complete one", since="2.0")
    def test_a_flush_that_close_cuts_short_raises(self, wlk: BackendUnderTest) -> None:
        """A flush that a close from another thread cuts short raises StreamClosed."""
        stimulus = wlk.speech(8, seed=7)
        expected = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        for name, flush in flushes_of(wlk).items():
            driver = wlk.stream(stimulus.audio)
            error = while_call_runs(wlk, partial(flush, driver), driver.processor.close)
            if error is None:  # the close took effect after all steps of the flush
                what = f"{name} returned although the stream was closed meanwhile"
                check_same(expected, driver.tokens, what=what, tolerance=0.1)
                check_clock(driver.processed_up_to, driver.clock)
            elif not isinstance(error, StreamClosed):
                raise AssertionError(
                    f"{name} of a stream that was closed meanwhile raised {error!r}, expected "
                    "StreamClosed"
                )
            else:
                committed = error.committed
                what = f"the words of the StreamClosed that {name} raised"
                check_same(expected[: len(committed)], committed, what=what, tolerance=0.1)

    @rule(
        "ISO-06",
        "module-level state",
        "a framework is initialised twice",
        "users of a shared model are counted, and a second close counts again",
    )
    def test_two_backends_work_side_by_side(self, wlk: BackendUnderTest) -> None:
        """Two backends in one process work, and closing one leaves the other."""
        stimulus = wlk.speech(6, seed=5)
        first, *rest = stimulus.chunks(1.0)
        mine = wlk.stream(first)
        mine.drain()
        other = wlk.another_backend()  # while a stream is in use
        theirs = wlk.stream(of=other)
        theirs.feed(first)
        for chunk in rest:
            mine.feed(chunk)
            theirs.feed(chunk)
        theirs.finish()
        other.close()
        mine.finish()
        check_solo(wlk, [stimulus, stimulus], [mine, theirs], "on two backends")
        other.close()
        again = wlk.another_backend()
        others = [wlk.run(stimulus, of=each) for each in (again, wlk.backend)]
        what = "after another backend was closed twice"
        check_solo(wlk, [stimulus, stimulus], others, what)

    @rule(
        "ISO-07",
        "rows of a batch are mixed, or see padding",
        "a batch shares its error or changes a cache",
        "a batch is sorted by length, and its answers are returned in that order",
        since="2.0",
        requires="batching",
    )
    def test_batched_streams_equal_solo_runs(self, wlk: BackendUnderTest) -> None:
        """
        Streams whose engine calls run in one batch return the tokens that each returns alone.

        An engine call that fails in a batch fails in one stream only, and can be repeated.
        """
        faults, streams = wlk.faults, len(AHEAD)
        stimuli = different_speech(wlk, streams)
        assert faults.calls.is_batching, (
            "batching is declared, but its EngineCalls do not batch; create them with "
            "is_batching=True and pass the engine's function through wrap_batch"
        )
        calls_before = faults.count
        runs_before = faults.calls.batch_count
        for when, failing in (("", ()), ("before", (streams + 2,)), ("after", (streams + 2,))):
            drivers, chunks = _begin_apart(wlk, stimuli)
            with faults.failing(failing, after=when == "after"):
                failures = _run_in_batches(wlk, drivers, chunks)
            how = f"with a fault {when} the engine ran" if failing else "in batches"
            assert len(failures) == len(failing), (
                f"{how}: {len(failing)} engine calls of {streams} streams failed on request, but "
                f"{len(failures)} calls of streams raised {failures[:1]}"
            )
            check_solo(wlk, stimuli, drivers, how)
        calls = faults.count - calls_before
        runs = faults.calls.batch_count - runs_before
        assert runs < calls, (
            f"batching is declared, but {calls} engine calls of {streams} streams that waited for "
            f"each other took {runs} runs of the engine"
        )


class _LockStep:
    """Threads that run their engine calls in step, as far as the engine lets them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting = self._round = 0
        self._arrival = threading.Condition()

    def begin_call(self) -> None:
        """
        Wait for the other threads, and again at each of the next TURNS calls of functions.

        Otherwise one thread would run all of a call in Python that takes less than 5 ms, the time
        after which Python lets another thread run.
        """
        if not self._arrive():
            return
        turns = count(1)

        def take_turn(*_event: object) -> None:
            if not self._arrive() or next(turns) == TURNS:
                sys.setprofile(None)

        sys.setprofile(take_turn)

    def end(self) -> None:
        """Do not wait for this thread any more."""
        sys.setprofile(None)
        with self._arrival:
            self._threads -= 1
            self._release()

    def _arrive(self) -> bool:
        """Wait until all threads have arrived; return False if that takes too long."""
        with self._arrival:
            before = self._round
            self._waiting += 1
            self._release()
            if self._arrival.wait_for(lambda: self._round != before, MEETING):
                return True
            self._waiting -= 1  # the engine has a lock, or another thread is slow
            return False

    def _release(self) -> None:
        if self._waiting >= self._threads:
            self._waiting = 0
            self._round += 1
            self._arrival.notify_all()


def _check_unchanged(before: dict[str, str], wlk: BackendUnderTest, when: str) -> None:
    now = fingerprint(wlk.backend)
    for path in sorted(before.keys() | now.keys()):
        was, is_ = before.get(path, "not there"), now.get(path, "gone")
        assert is_ == was, f"{when} {path} is {is_}, but was {was}"


def fingerprint(backend: object) -> dict[str, str]:
    """
    Return a description of every object inside *backend*, by its path.

    Modules of torch and mlx are identified by id, hooks and parameter names, other objects by the
    names of their attributes and the ids of callables among them, dictionaries by their keys and
    plain values.  Numbers are left out because counting is allowed, and so are
    `EngineCalls`, because the rules themselves set their interceptor.
    """
    described: dict[str, str] = {}
    seen: set[int] = set()
    pending: list[tuple[str, object, int]] = [("backend", backend, 0)]
    while pending and len(seen) < LIMIT:
        path, value, depth = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "named_modules") and hasattr(value, "named_parameters"):
            described |= _torch(path, value)
            continue
        inside = _inside(value)
        if inside is None:
            continue
        described[path] = f"{type(value).__qualname__} with {', '.join(sorted(inside))}"
        for name, part in inside.items():
            inner = f"{path}.{name}"
            if isinstance(part, (str, bool, type(None))):
                described[inner] = repr(part)
            elif callable(part):
                described[inner] = f"{type(part).__qualname__} at {id(part):#x}"
            if depth < DEPTH:
                pending.append((inner, part, depth + 1))
    return described


def _check_two_values(wlk: BackendUnderTest, stimulus: Stimulus) -> None:
    """Assert that a stream keeps its value of an option if another one has another value."""
    run = partial(wlk.run, stimulus, chunk_seconds=0.5)
    for (name, mine), (other, theirs) in pairwise(wlk.variants.items()):
        if name.partition("=")[0] != other.partition("=")[0]:
            continue
        with suppress(OptionError):  # not every model has every option of its backend
            driver, _ = wlk.stream(**mine), wlk.stream(**theirs)
            driver.feed(stimulus.audio, chunk_seconds=0.5)
            driver.end()
            texts = texts_of_calls(driver)
            alone, again = (texts_of_calls(run(**mine)) for _ in range(2))
            if alone == again:  # an engine that answers in its own time may commit at other calls
                check_texts(alone, texts, what=f"what each call commits, {name} beside {other}")


def _after_reset(
    driver: StreamDriver, stimulus: Stimulus
) -> tuple[tuple[ASRToken, ...], dict[str, int]]:
    """Return the tokens of *stimulus* in a stream that is reset before it, and the work."""
    driver.reset()
    driver.feed(stimulus.audio)
    driver.end()
    return driver.tokens, counted(driver.processor.stats)


def _inside(value: object) -> dict[str, Any] | None:
    """Return the parts of an object or dictionary, None if it has none of interest."""
    if isinstance(value, (str, bytes, int, float, type, ModuleType, EngineCalls)) or value is None:
        return None
    if isinstance(value, dict):
        return {str(key): part for key, part in value.items() if isinstance(key, str)}
    if type(value).__module__ in {"builtins", "threading", "_thread", "numpy"}:
        return None
    state: Any = object.__getstate__(value)  # of `__dict__` and `__slots__`
    parts = state if isinstance(state, tuple) else (state,)
    return {name: part for named in parts if named for name, part in named.items()}


def _torch(path: str, model: Any) -> dict[str, str]:
    names = sorted(name for name, _ in model.named_parameters())
    described = {f"{path}:parameters": str(hash(tuple(names)))}
    for name, module in model.named_modules():
        hooks = {key: len(getattr(module, key, ())) for key in HOOKS}
        own = sorted(key for key in vars(module) if not key.startswith("_"))
        parts = f"{id(module):#x} {hooks} {own}"
        described[f"{path}:{name}"] = f"{type(module).__qualname__} at {parts}"
    return described


def _begin_apart(
    wlk: BackendUnderTest, stimuli: Sequence[Stimulus]
) -> tuple[list[StreamDriver], list[list[NDArray[np.float32]]]]:
    """Begin a stream for each stimulus, some further on than others; return the chunks left too."""
    drivers = [wlk.stream() for _ in stimuli]
    rests = [stimulus.chunks(BATCHED) for stimulus in stimuli]
    for driver, chunks, ahead in zip(drivers, rests, AHEAD, strict=True):
        for _ in range(ahead):
            driver.insert(chunks.pop(0))
            driver.drain()
    return drivers, rests


def _run_in_batches(
    wlk: BackendUnderTest,
    drivers: Sequence[StreamDriver],
    rests: Sequence[Sequence[NDArray[np.float32]]],
) -> list[BackendError]:
    """
    Feed each stream its chunks in its own thread, in batches of all streams still running.

    Returns what they raised; a call that raised was repeated once.
    """
    faults = wlk.faults
    failures: list[BackendError] = []
    ending = threading.Lock()

    def repeated(call: Callable[[], object]) -> None:
        try:
            call()
        except BackendError as error:
            failures.append(error)
            call()

    def run(driver: StreamDriver, chunks: Sequence[NDArray[np.float32]]) -> None:
        try:
            for chunk in chunks:
                driver.insert(chunk)
                repeated(driver.drain)
            repeated(driver.finish)
        finally:
            with ending:
                faults.together -= 1  # the others no longer wait for this stream

    faults.together = len(drivers)
    try:
        run_together([partial(run, *pair) for pair in zip(drivers, rests, strict=True)])
    finally:
        faults.together = 0
    return failures
