"""A stream emits what transformers' own generation emits, offline and streaming."""

from __future__ import annotations

from functools import partial
import itertools
from pathlib import Path
import shutil

import numpy as np
import pytest
import torch
from transformers import NemotronAsrStreamingConfig, NemotronAsrStreamingForRNNT

from wlk_conformance.testing import StreamDriver
from wlk_core import OptionError, load_backend
from wlk_core.plugins import OnlineStream
import wlk_nemotron
from wlk_nemotron.engine.recognizer import nemotron_recognizer

LOOK_AHEADS = [1, 2, 4, 7, 14]  # encoder frames
FRAME = 1280
ENGLISH = 0
DIGITS = Path(wlk_nemotron.__file__).parent / "digits"

pytestmark = pytest.mark.filterwarnings("ignore:Using the model-agnostic default")


class RecordedCalls:
    """An engine call that keeps the tokens and the encoder frames of a stream."""

    def __init__(self, engine):
        self.engine = engine
        self.tokens, self.frames, self.states = [], [], []

    def __call__(self, request):
        """Decode a request, and keep its tokens and its state."""
        answer = self.decode([request])[0]
        self.tokens += [(token.id, token.frame) for token in answer[0]]
        self.states.append(answer[1])
        return answer

    def decode(self, requests):
        """Decode requests, and keep the encoder frames that the joint network receives."""
        prompted = self.engine._prompted

        def kept(*arguments):
            self.frames.append(prompted(*arguments))
            return self.frames[-1]

        self.engine._prompted = kept
        try:
            return self.engine.decode_batch(requests)
        finally:
            del self.engine._prompted


def streamed(engine, audio, *, chunk_frames, seconds, language="en"):
    """Return what a stream emits that receives *audio* in pieces of *seconds*."""
    calls = RecordedCalls(engine)
    recognizer = partial(nemotron_recognizer, calls, checkpoint=engine.checkpoint,
                         chunk_frames=chunk_frames, language=language)  # fmt: skip
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=seconds)
    driver.finish()
    return calls


def padded(audio, chunk_frames):
    """Return *audio* padded as a stream pads it, and the number of its mel frames."""
    frames = -(-len(audio) // FRAME) + 1 + 5
    frames += -frames % chunk_frames
    return np.pad(audio, (0, (frames - 1) * FRAME + 200 - len(audio))), 8 * frames - 7


def generated(engine, features, chunk_frames):
    """Return the ids and frames of the tokens that transformers generates."""
    model = engine.model
    with torch.inference_mode():
        output = model.generate(
            input_features=features,
            num_lookahead_tokens=chunk_frames - 1,
            prompt_ids=torch.tensor([ENGLISH]),
            max_new_tokens=4000,
            return_dict_in_generate=True,
        )
    frames = (output.durations.cumsum(1) - output.durations)[0].tolist()
    ids = output.sequences[0].tolist()
    blank = model.config.blank_token_id
    return [(i, frame) for i, frame in zip(ids[1:], frames[1:], strict=True) if i != blank]


@pytest.mark.slow
@pytest.mark.parametrize("chunk_frames", LOOK_AHEADS)
def test_a_stream_emits_what_offline_generation_emits(random_engine, audio, chunk_frames):
    """For any pieces of audio, tokens and their frames are equal, and encoder frames to 1e-4."""
    whole, mels = padded(audio, chunk_frames)
    mel = random_engine._extractor(whole, sampling_rate=16_000, return_tensors="pt").input_features
    mel = mel[:, :mels]
    with torch.inference_mode():
        offline = random_engine.model.get_audio_features(
            mel, prompt_ids=torch.tensor([ENGLISH]), num_lookahead_tokens=chunk_frames - 1
        )
    expected = generated(random_engine, mel, chunk_frames)

    assert len({token for token, _ in expected}) > 5
    for seconds in (0.1, 60.0):
        stream = streamed(random_engine, audio, chunk_frames=chunk_frames, seconds=seconds)
        frames = torch.cat(stream.frames, 1)
        assert stream.tokens == expected
        torch.testing.assert_close(offline.pooler_output, frames, atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("chunk_frames", [2, 7])
def test_a_stream_emits_what_streaming_generation_emits(random_engine, audio, chunk_frames):
    """Chunks of transformers, with its own caches, yield the same tokens at the same frames."""
    whole, mels = padded(audio, chunk_frames)
    mel = random_engine._extractor(whole, sampling_rate=16_000, return_tensors="pt").input_features
    cuts = [0, *range(8 * chunk_frames - 7, mels + 1, 8 * chunk_frames)]
    chunks = (mel[:, first:end] for first, end in itertools.pairwise(cuts))

    stream = streamed(random_engine, audio, chunk_frames=chunk_frames, seconds=0.1)
    assert generated(random_engine, chunks, chunk_frames) == stream.tokens


@pytest.mark.slow
def test_streams_that_are_taken_together_are_as_alone(random_engine, audio):
    """Streams of different lengths, look-aheads and languages share passes, but nothing else."""
    requests = {}

    def keep(key, calls, request):
        answer = RecordedCalls.__call__(calls, request)
        requests.setdefault(key, []).append((request, answer))
        return answer

    for shift, (chunk_frames, language) in enumerate([(2, "en"), (2, "de"), (7, None), (2, None)]):
        call = partial(keep, shift, RecordedCalls(random_engine))
        recognizer = nemotron_recognizer(call, checkpoint=random_engine.checkpoint,
                                        chunk_frames=chunk_frames, language=language)  # fmt: skip
        recognizer.feed(audio[3000 * shift : 3000 * shift + 16_000 * (2 + shift)])
        while recognizer.step(is_last=True):
            pass
    alone = [pair for key in requests for pair in requests[key][:: 1 + key]]
    together = random_engine.decode_batch([request for request, _ in alone])

    assert any(answer[0] for answer in together)
    for (_, one), other in zip(alone, together, strict=True):
        assert [(t.id, t.frame) for t in one[0]] == [(t.id, t.frame) for t in other[0]]
        torch.testing.assert_close(one[1].tensors, other[1].tensors, atol=1e-4, rtol=0)
        rows = [answer[1].kv_cache.numbers[None] for answer in (one, other)]
        for layer in range(random_engine.model.config.encoder_config.num_hidden_layers):
            ours, theirs = (
                random_engine.encoder.pool.gathered(layer, torch.from_numpy(numbers))
                for numbers in rows
            )
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_the_state_of_a_stream_is_bounded(random_engine, audio):
    """Once the attention window is full, the bytes that a stream holds do not grow."""
    stream = streamed(random_engine, np.tile(audio, 2), chunk_frames=2, seconds=0.5)
    assert len({state.nbytes for state in stream.states[20:-1]}) == 1
    assert random_engine.encoder.pool.capacity < 2000  # places are reused


def test_the_look_ahead_is_one_that_the_model_was_trained_for(backend):
    """The message names the supported ones."""
    with pytest.raises(OptionError, match="trained for a look_ahead_ms of 80, 160, 320, 560, 1120"):
        backend.create_processor(look_ahead_ms=240)


def test_a_model_of_english_alone_takes_no_prompt(backend, audio, tmp_path):
    """It has the architecture of the multilingual model, without its languages."""
    table = backend.engine.model.config.to_dict()
    config = NemotronAsrStreamingConfig(
        **{key: table[key] for key in ("vocab_size", "blank_token_id", "decoder_hidden_size",
                                       "num_decoder_layers", "encoder_config")}
    )  # fmt: skip
    NemotronAsrStreamingForRNNT(config).save_pretrained(tmp_path)
    shutil.copy(DIGITS / "tokenizer.json", tmp_path)
    (tmp_path / "processor_config.json").write_text('{"feature_extractor": {"feature_size": 80}}')
    with load_backend("nemotron", str(tmp_path)) as english:
        driver = StreamDriver(english.create_processor(language="en"))
        driver.feed(audio[:16_000])
        driver.finish()
        assert driver.processed_up_to == 1.0
        with pytest.raises(OptionError, match="no prompt for the language de; expected one of en"):
            english.create_processor(language="de")
