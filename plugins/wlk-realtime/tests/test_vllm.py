"""Streams at a server that speaks vLLM's protocol."""

from __future__ import annotations

from contextlib import contextmanager

from bursts import BURSTS, DELAY_STEPS, STEP, UTTERANCE, fed, spoken, true_end
import numpy as np
import pytest
from small_vllm import SmallVllm
from web_sockets import running

from wlk_core import load_backend
from wlk_core.errors import BackendError, OptionError


@contextmanager
def stream_at(server, **options):
    """Yield a stream at *server*."""
    with (
        running(server) as url,
        load_backend("realtime", url, timeout_seconds=60, **options) as backend,
    ):
        stream = backend.create_processor()
        yield stream
        stream.close()


def times(tokens):
    """Return start, end and text of each token."""
    return [(round(t.start, 3), round(t.end, 3), t.text.strip()) for t in tokens]


def expected(bursts, *, origin=0.0, first=0):
    """Return the words of *bursts*, with starts to the sample and ends to the step."""
    return [
        (round(origin + start, 3), round(origin + true_end(end), 3), f"word{first + number}")
        for number, (start, end) in enumerate(bursts)
    ]


@pytest.mark.parametrize("chunk", [512, 1280, 8000, 56_000])
def test_words_have_the_times_of_their_steps(chunk):
    """Chunk sizes make no difference: deltas are counted, and starts come from the audio."""
    with stream_at(SmallVllm()) as stream:
        tokens = [*fed(stream, UTTERANCE, chunk=chunk), *stream.finish().committed]

    assert times(tokens) == expected(BURSTS)


def test_a_word_comes_with_the_step_that_completes_it():
    """It takes the model's delay, the marker, the text, and a step without text."""
    server = SmallVllm()
    with stream_at(server) as stream:
        last = round(true_end(0.9) / 0.08) - 1  # the step with the marker
        complete = last + 2 + DELAY_STEPS + 2  # steps of audio, including the look-ahead
        before = fed(stream, UTTERANCE[: (complete - 1) * STEP], chunk=STEP)
        shown = stream.get_buffer().text
        after = fed(stream, UTTERANCE[(complete - 1) * STEP : complete * STEP])

    assert (before, shown.strip()) == ([], "word0")
    assert times(after) == expected(BURSTS[:1])


def test_every_silence_ends_a_generation():
    """The clock continues, and no message is ignored or lost."""
    server = SmallVllm()
    with stream_at(server) as stream:
        tokens = fed(stream, UTTERANCE)
        for pause in (0.3, 60.0):
            tokens += stream.start_silence().committed
            stream.end_silence(pause)
            tokens += fed(stream, UTTERANCE)
        tokens += stream.finish().committed

    later = (*expected(BURSTS, origin=3.8), *expected(BURSTS, origin=67.3))
    assert times(tokens) == [*expected(BURSTS), *later]
    assert (server.ignored_commits, server.dropped_samples) == (0, 0)
    assert server.received.count(("input_audio_buffer.commit", True)) == 5  # two by the handshake


def test_an_utterance_longer_than_the_context_loses_nothing():
    """Generations end in pauses before max_model_len, without lost, repeated or shifted words."""
    bursts = [(0.7 * n + 0.1, 0.7 * n + 0.45) for n in range(60)]
    audio = spoken(*bursts, seconds=42.5)
    server = SmallVllm(max_model_len=39 + 10 + 130)  # 10.4 s of audio
    with stream_at(server) as stream:
        tokens = [*fed(stream, audio), *stream.finish().committed]

    found = times(tokens)
    truth = expected(bursts)
    assert [start for start, *_ in found] == [start for start, *_ in truth]
    assert [end for _, end, _ in found] == pytest.approx([end for _, end, _ in truth], abs=0.08)
    assert server.received.count(("input_audio_buffer.commit", True)) > 6
    assert (server.ignored_commits, server.dropped_samples) == (0, 0)
    assert tokens[30].text[0] == " "


@pytest.mark.parametrize(
    "server",
    [SmallVllm(merge=2), SmallVllm(tokens=lambda count: count + 1)],
    ids=["texts are merged", "counts disagree"],
)
def test_times_are_unknown_where_texts_cannot_be_counted(server):
    """The backend declares no word times, and commits the words of the server."""
    with running(server) as url, load_backend("realtime", url, timeout_seconds=60) as backend:
        stream = backend.create_processor()
        tokens = [*fed(stream, UTTERANCE), *stream.finish().committed]
        stream.close()
        capabilities = backend.spec.capabilities

    assert capabilities == {"speaker-turns"}
    assert [token.text.strip() for token in tokens] == ["word0", "word1", "word2"]
    assert all(0 <= token.start <= token.end <= 3.5 for token in tokens)


def test_what_is_declared_is_what_the_handshake_showed():
    """The backend declares no probabilities, no languages and no prompt."""
    with running(SmallVllm()) as url, load_backend("realtime", url, timeout_seconds=60) as backend:
        backend.warmup()
        with pytest.raises(OptionError, match="takes no prompt"):
            backend.create_processor(prompt="names")
        with pytest.raises(OptionError):
            backend.create_processor(language="en")
        spec = backend.spec

    assert spec.capabilities == {"word-times", "hypothesis", "bounded-state", "speaker-turns"}
    assert spec.languages == ()


def test_a_generation_that_ends_by_itself_is_decoded_again():
    """If the list of models has no limit, this is a retryable error that loses no word."""
    bursts = [(0.7 * n + 0.1, 0.7 * n + 0.45) for n in range(20)]
    server = SmallVllm(max_model_len=39 + 130)
    server.models = lambda: {"data": [{"id": "voxtral"}]}
    tokens, failures = [], []
    with stream_at(server) as stream:
        for audio in np.split(spoken(*bursts, seconds=14.4), 18):
            stream.insert_audio_chunk(audio)
            try:
                tokens += stream.process_iter().committed
            except BackendError as error:
                failures.append(error)
                server.max_model_len = 45_000
        tokens += stream.finish().committed

    assert ["max_model_len" in str(error) for error in failures] == [True]
    assert failures[0].retryable
    assert [token.start for token in tokens] == pytest.approx([start for start, _ in bursts])
