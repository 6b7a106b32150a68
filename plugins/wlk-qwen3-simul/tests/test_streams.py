"""Streams of both frameworks on the digits checkpoint commit the same words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits, silence
from wlk_core import OptionError, load_backend
from wlk_qwen3_simul.checkpoint import BUNDLED

pytestmark = pytest.mark.skipif(
    not (BUNDLED["digits"] / "config.json").is_file(), reason="the digits checkpoint is not built"
)
POLICIES = ["alignatt", "local-agreement"]


@pytest.fixture(scope="module")
def backend():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("qwen3-simul", "digits") as loaded:
        yield loaded


def stream(backend, audio, *, chunk=16_000, **options):
    """Return the driver of a stream that received all of *audio* and was finished."""
    driver = StreamDriver(backend.create_processor(**options))
    for first in range(0, len(audio), chunk):
        driver.insert(audio[first : first + chunk])
        driver.drain()
    driver.finish()
    return driver


def committed(driver):
    """Return the texts and times of the committed tokens."""
    return [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_torch_and_mlx_commit_the_same_words(backend, policy):
    """In float32, text, times and work are the same on both frameworks."""
    pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    with load_backend("qwen3-mlx-simul", "digits") as other:
        for seed in range(2):
            audio = connected_digits(8, seed=seed).audio
            on_torch, on_mlx = (stream(each, audio, policy=policy) for each in (backend, other))

            assert on_torch.tokens
            assert committed(on_torch) == committed(on_mlx)
            for ours, theirs in zip(on_torch.tokens, on_mlx.tokens, strict=True):
                assert ours.probability == pytest.approx(theirs.probability, abs=1e-3)
            torch_stats, mlx_stats = on_torch.processor.stats, on_mlx.processor.stats
            assert torch_stats.encoder_frames == mlx_stats.encoder_frames
            assert torch_stats.decoder_positions == mlx_stats.decoder_positions


@pytest.mark.slow
def test_a_cut_inside_a_word_costs_no_other_word(backend):
    """The cut at 8 s leaves half of a digit in the buffer, which the forced text does not have."""
    clips = [
        connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8)
        for seed in (0, 1, 2, 3, 4)
    ]
    audio = np.concatenate([clip.audio for clip in clips])
    driver = stream(backend, audio, language="en", policy="alignatt")

    assert " ".join(clip.text for clip in clips) == driver.text.strip()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["qwen3-simul", "qwen3-mlx-simul"])
def test_eight_streams_in_threads_are_eight_streams_alone(name, policy):
    """Some streams have a language and some detect it, and the threads switch often."""
    if name == "qwen3-mlx-simul":
        pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
        pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    with load_backend(name, "digits") as backend:
        alone, together = eight_streams(backend, policy)

    assert all(alone)
    assert alone == together


def eight_streams(backend, policy):
    """Return the words of eight streams, decoded one by one and in as many threads."""
    clips = [connected_digits(3, seed=seed).audio for seed in range(8)]
    languages = ["en", None] * 4

    def run(clip, language):
        return committed(stream(backend, clip, policy=policy, language=language))

    alone = [run(clip, language) for clip, language in zip(clips, languages, strict=True)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(run, clips, languages))
    finally:
        sys.setswitchinterval(interval)
    return alone, together


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1600, 8000, 80_000, 10**7])
def test_words_do_not_depend_on_the_chunks(backend, chunk):
    """Chunks of 0.1 s, 0.5 s, 5 s and of everything at once span several cuts of the buffer."""
    audio = connected_digits(24, seed=3).audio
    reference = committed(stream(backend, audio))

    assert reference
    assert reference == committed(stream(backend, audio, chunk=chunk))


@pytest.mark.slow
def test_forty_minutes_in_one_insert_are_decoded_to_their_end(backend):
    """No audio is dropped, and the state beside the backlog stays bounded."""
    clip = connected_digits(6, seed=1)
    # The clip fits into a window of the last buffer, because the small checkpoint recognises
    # nothing after a window of silence.
    later_start = 40 * 60 + 36
    audio = np.zeros(len(clip.audio) + later_start * 16_000, dtype=np.float32)
    for first in (0, later_start * 16_000):
        audio[first : first + len(clip.audio)] = clip.audio
    driver = StreamDriver(backend.create_processor(language="en", tick_seconds=10.0))
    driver.insert(audio)
    state_bytes, reached = [], -1.0
    while driver.process().processed_up_to > reached:
        reached = driver.processed_up_to
        backlog = 4 * (len(audio) - round(reached * 16_000))
        state_bytes.append(driver.processor.stats.state_bytes - backlog)
    driver.finish()
    later = [token for token in driver.tokens if token.start >= later_start]

    assert 61 == len(state_bytes)  # calls of four ticks; a rest of a tick waits for the end
    assert max(state_bytes) <= 1.02 * state_bytes[1]
    assert clip.text.split() == [token.text.strip() for token in later]
    for token, word in zip(later, clip.words, strict=True):
        assert word.start + later_start == pytest.approx(token.start, abs=0.3)
    assert 2 * clip.text.split() == driver.text.split()


@pytest.mark.parametrize("samples", [1, 100, 200, 201])
def test_the_shortest_streams_end_without_words(backend, samples):
    """The audio is too short for a frame, or for the mirror at its end."""
    driver = StreamDriver(backend.create_processor())
    driver.insert(silence(1.0)[:samples])
    driver.finish()

    assert () == tuple(driver.tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "tlh"}, "expected one of: ar, cs"),
        ({"language": "de"}, "the model digits recognises en only"),
        ({"policy": "local-agreement", "border_seconds": 1.0}, "takes no border_seconds"),
        ({"prompt": "Ann <|im_end|>"}, "prompt or keyterms contains '<|im_end|>'"),
        ({"init_prompt": "Ann"}, "did you mean prompt?"),
        ({"border_frames": 12}, "did you mean border_seconds?"),
        ({"task": "translate"}, "expected one of: transcribe"),
    ],
)
def test_an_unsupported_stream_is_refused_when_it_is_opened(backend, options, message):
    """No option is dropped in silence."""
    with pytest.raises(OptionError) as caught:
        backend.create_processor(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("heads", "message"),
    [("predict:9.0", "9.0"), ("3.1", "predict:layer.head"), ("nowhere.json", "does not exist")],
)
def test_heads_of_another_model_are_refused(heads, message):
    """The message names what was expected, or what is missing."""
    with pytest.raises(OptionError) as caught:
        load_backend("qwen3-simul", "digits", alignment_heads=heads)
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_fault_in_the_middle_of_a_text_loses_nothing(backend, monkeypatch):
    """A forward that fails changes nothing: after a retry the words are those without the fault."""
    audio = connected_digits(6, seed=7).audio
    sane = committed(stream(backend, audio))
    network = type(backend.engine.network)
    real, forwards = network.forward, []

    def failing(self, *args, **kwargs):
        output = real(self, *args, **kwargs)
        forwards.append(1)
        if len(forwards) % 11 == 0:
            raise RuntimeError("out of memory")
        return output

    monkeypatch.setattr(network, "forward", failing)
    driver = StreamDriver(backend.create_processor())
    for first in range(0, len(audio), 16_000):
        driver.insert(audio[first : first + 16_000])
        attempt(driver.drain)
    attempt(driver.finish)

    assert sane == committed(driver)


def attempt(call):
    """Make *call* again until it does not fail."""
    for _ in range(3):
        try:
            call()
        except RuntimeError:
            continue
        except Exception as error:  # noqa: BLE001 -- the wrapped fault
            assert "out of memory" in str(error)
            continue
        return
    call()
