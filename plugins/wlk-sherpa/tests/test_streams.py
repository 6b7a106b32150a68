"""Streams return what sherpa-onnx itself returns, alone, in batches and after failures."""

from __future__ import annotations

import attrs
import numpy as np
from onnx_files import write_beeps
import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.testing import StreamDriver, connected_digits, load_clip
from wlk_core import SAMPLE_RATE, OptionError, load_backend
from wlk_sherpa.engine.engine import DecodeRequest, SherpaEngine
from wlk_sherpa.engine.recognizer import MAX_SEGMENT_SECONDS, SEGMENT_SECONDS


def chunks_of(engine, audio):
    """Return the audio of every chunk; the first also has the look-ahead."""
    ends = range(
        engine.chunk_samples + engine.lookahead_samples, len(audio) + 1, engine.chunk_samples
    )
    return np.split(audio, list(ends))[:-1]


def decoded(engine, chunks, **fields):
    """Return the answer to a single request."""
    return engine.decode_batch([DecodeRequest(chunks=chunks, **fields)])[0]


def whole(engine, audio):
    """Return the tokens of sherpa-onnx's own loop over a whole recording."""
    stream = engine.recognizer.create_stream()
    stream.accept_waveform(SAMPLE_RATE, audio)
    while engine.recognizer.is_ready(stream):
        engine.recognizer.decode_stream(stream)
    return engine.recognizer.get_result_all(stream)


def columns_of(tokens):
    """Return tokens as sherpa-onnx returns them: text, times and scores."""
    columns = list(zip(*map(attrs.astuple, tokens), strict=True)) or [(), (), ()]
    return [list(column) for column in columns]


def transcript(backend, audio, *, chunk_seconds=0.5, **options):
    """Return the tokens of a stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver.tokens


def test_chunks_equal_a_loop_over_the_whole_recording(backend):
    """Tokens, times and scores are bit-identical to those of sherpa-onnx."""
    engine, audio = backend.engine, load_clip("demo").audio
    expected = whole(engine, audio)
    chunks, stream = chunks_of(engine, audio), None
    for number, chunk in enumerate(chunks):
        answer = decoded(engine, [chunk], history=chunks[:number], stream=stream)
        stream = answer.stream

    assert len(expected.tokens) > 8
    assert columns_of(answer.results[-1]) == [
        expected.tokens,
        expected.timestamps,
        expected.ys_probs,
    ]


def test_streams_decoded_together_equal_each_alone(backend):
    """Batches round differently, by less than 1e-4, and emit the same tokens."""
    engine = backend.engine
    requests = [
        DecodeRequest(chunks=chunks_of(engine, connected_digits(6, seed=seed).audio)[:count])
        for seed, count in enumerate([4, 9, 16, 20, 22])
    ]

    for request, together in zip(requests, engine.decode_batch(requests), strict=True):
        alone = decoded(engine, request.chunks)
        assert len(request.chunks) == len(together.results)
        for one, other in zip(alone.results, together.results, strict=True):
            assert columns_of(one)[:2] == columns_of(other)[:2]
            np.testing.assert_allclose(columns_of(one)[2], columns_of(other)[2], atol=1e-4)


@pytest.mark.parametrize("has_run", [False, True], ids=["before the run", "after the run"])
def test_a_failed_chunk_is_repeated_from_the_audio(backend, has_run):
    """A stream that has changed is not reused: the answer is that of an undisturbed run."""
    engine = backend.engine
    chunks = chunks_of(engine, load_clip("demo").audio)[:28]
    expected = decoded(engine, chunks)
    first = decoded(engine, chunks[:20])
    if has_run:
        decoded(engine, chunks[20:], history=chunks[:20], stream=first.stream)  # the answer is lost
    else:
        first.stream.decoded_chunks = None  # as if the library had raised
    answer = decoded(engine, chunks[20:], history=chunks[:20], stream=first.stream)

    assert answer.results == expected.results[20:]
    assert first.stream is not answer.stream
    assert answer.work == expected.work  # including the history, which was decoded again


def test_a_stream_goes_on_where_any_call_failed(backend):
    """Failures of any kind of call change neither text nor times."""
    audio = connected_digits(8, seed=4).audio
    expected = transcript(backend, audio)
    faults = EngineFaults.of(backend.engine_calls)
    first = backend.engine_calls.count
    faults.fail_before = frozenset(first + number for number in (2, 9))
    faults.fail_after = frozenset(first + number for number in (5, 12, 13))
    stream = backend.create_processor()
    tokens = []
    try:
        stream.insert_audio_chunk(audio)
        failures = 0
        while stream.has_backlog:
            try:
                tokens += stream.process_iter().committed
            except Exception:  # noqa: BLE001 -- as a caller of a stream would
                failures += 1
        tokens += stream.finish().committed
    finally:
        backend.engine_calls.intercept = None

    assert failures == 5
    assert tuple(tokens) == expected


def test_speech_without_a_pause_is_decoded_in_segments(backend):
    """A stream keeps less audio than one segment, and no word is lost."""
    clip = connected_digits(120, seed=5, gap=(0.02, 0.3), lead=0.0)
    stream = backend.create_processor()
    held, words = [], []
    for first in range(0, len(clip.audio), SAMPLE_RATE):
        stream.insert_audio_chunk(clip.audio[first : first + SAMPLE_RATE])
        while stream.has_backlog:
            words += stream.process_iter().committed
        held.append(stream.stats.state_bytes)
    words += stream.finish().committed
    second = 4 * SAMPLE_RATE  # bytes

    assert SEGMENT_SECONDS * second < max(held) < (MAX_SEGMENT_SECONDS + 1.5) * second
    assert clip.seconds > 2 * MAX_SEGMENT_SECONDS
    spoken = [word.text for word in clip.words]
    assert abs(len(words) - len(spoken)) <= 2


def test_beam_search_commits_the_words_of_greedy_search(backend, beam):
    """Later chunks can change tokens before they are final, but do not here."""
    audio = load_clip("demo").audio
    greedy = [token.text for token in transcript(backend, audio)]

    assert [token.text for token in transcript(beam, audio)] == greedy


def test_keyterms_are_favoured_in_their_own_stream(beam):
    """A term raises the scores of its tokens when it is spoken, but not in other streams."""
    engine, audio = beam.engine, load_clip("demo").audio
    plain = DecodeRequest(chunks=chunks_of(engine, audio))
    answers = engine.decode_batch([plain, attrs.evolve(plain, hotwords="seven/three")])
    scores = [
        engine.recognizer.get_result_all(answer.stream.native).context_scores for answer in answers
    ]

    assert not any(scores[0])
    assert max(scores[1]) > 0


def test_a_keyterm_decides_between_two_words_at_once(beam):
    """In a mix of "one" and "nine", the keyterm is recognised more often."""
    one, nine = (connected_digits(1, seed=0, digits=(digit,)).audio for digit in (1, 9))
    length = min(len(one), len(nine))
    recognised = {"one": [], "nine": []}
    for share in (0.5, 0.58, 0.65, 0.72):
        both = np.float32(share) * one[:length] + np.float32(1 - share) * nine[:length]
        for term, words in recognised.items():
            words += [token.text for token in transcript(beam, both, keyterms=term)]

    assert recognised["one"].count("one") > recognised["nine"].count("one")
    assert recognised["nine"].count("nine") > recognised["one"].count("nine")


@pytest.mark.parametrize(
    ("loaded", "keyterms", "message"),
    [
        ("backend", "seven", "keyterms need beam search: load the model with --option beam_size=4"),
        ("beam", "seven, Bob", "cannot write 'b' of the keyterm 'bob'; spell it as"),
        ("beam", "seven/two", "cannot write '/' of"),
    ],
    ids=["greedy search", "unknown letters", "the separator"],
)
def test_keyterms_that_would_do_nothing_are_refused(request, loaded, keyterms, message):
    """The library would print a warning and ignore them."""
    with pytest.raises(OptionError, match=message):
        request.getfixturevalue(loaded).create_processor(keyterms=keyterms)


def test_the_engine_finds_the_chunks_of_a_model(backend):
    """The digits model has chunks of 80 ms and 130 ms of look-ahead, in whole feature frames."""
    engine = SherpaEngine(backend.engine.recognizer)

    assert (engine.chunk_samples, engine.lookahead_samples) == (1280, 2080)


def test_a_ctc_model_has_the_times_of_its_frames(tmp_path):
    """Sherpa-onnx assumes frames of 40 ms, but those of NeMo are 80 ms."""
    write_beeps(tmp_path)
    audio = np.full(6 * SAMPLE_RATE, 1e-4, dtype=np.float32)
    rng = np.random.default_rng(0)
    for start in (0.8, 2.4, 4.0):
        first = round(start * SAMPLE_RATE)
        audio[first : first + 6400] = 0.3 * rng.standard_normal(6400)
    with load_backend("sherpa", str(tmp_path)) as backend:
        tokens = transcript(backend, audio, chunk_seconds=0.1)

    assert "".join(token.text for token in tokens) == "beep beep beep"
    np.testing.assert_allclose([0.8, 2.4, 4.0], [token.start for token in tokens], atol=0.081)
    assert {token.probability for token in tokens} == {None}
