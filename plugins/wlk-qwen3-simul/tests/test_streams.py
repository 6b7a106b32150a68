"""Streams of both engines on the digits checkpoint: the same words, alone or side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_core import OptionError, load_backend
from wlk_core.testing import StreamDriver, connected_digits, silence
from wlk_qwen3_simul.loading import BUNDLED

pytestmark = pytest.mark.skipif(
    not (BUNDLED["digits"] / "config.json").is_file(), reason="the digits checkpoint is not built"
)
POLICIES = ["alignatt", "local-agreement"]


@pytest.fixture(scope="module")
def backend():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("qwen3-simul", "digits") as loaded:
        yield loaded


def heard(backend, audio, *, chunk=16_000, **options):
    """Return the driver of a stream that has heard *audio* to its end."""
    driver = StreamDriver(backend.create_processor(**options))
    for first in range(0, len(audio), chunk):
        driver.insert(audio[first : first + chunk])
        driver.drain()
    driver.finish()
    return driver


def told(driver):
    """Return what was committed: texts and times."""
    return [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_torch_and_mlx_commit_the_same_words(backend, policy):
    """One checkpoint on two engines in float32: text, times and work."""
    pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    with load_backend("qwen3-mlx-simul", "digits") as other:
        for seed in range(2):
            audio = connected_digits(8, seed=seed).audio
            one, two = (heard(which, audio, policy=policy) for which in (backend, other))

            assert one.tokens
            assert told(one) == told(two)
            for here, there in zip(one.tokens, two.tokens, strict=True):
                assert here.probability == pytest.approx(there.probability, abs=1e-3)
            mine, theirs = one.processor.stats, two.processor.stats
            assert mine.encoder_frames == theirs.encoder_frames
            assert mine.decoder_positions == theirs.decoder_positions


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["qwen3-simul", "qwen3-mlx-simul"])
def test_eight_streams_in_threads_are_eight_streams_alone(name, policy):
    """With the language told to some and not to others, and threads that take turns often."""
    if name == "qwen3-mlx-simul":
        pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
        pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    with load_backend(name, "digits") as backend:
        _compare_threads(backend, policy)


def _compare_threads(backend, policy):
    clips = [connected_digits(3, seed=seed).audio for seed in range(8)]
    languages = ["en", None] * 4
    alone = [
        told(heard(backend, clip, policy=policy, language=language))
        for clip, language in zip(clips, languages, strict=True)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(
                pool.map(
                    lambda pair: told(heard(backend, pair[0], policy=policy, language=pair[1])),
                    zip(clips, languages, strict=True),
                )
            )
    finally:
        sys.setswitchinterval(interval)

    assert all(alone)
    assert alone == together


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1600, 8000, 80_000, 10**7])
def test_words_do_not_depend_on_the_chunks(backend, chunk):
    """Over several cuts of the buffer: 0.1 s, half a second, 5 s and everything at once."""
    audio = connected_digits(24, seed=3).audio
    reference = told(heard(backend, audio))

    assert reference
    assert reference == told(heard(backend, audio, chunk=chunk))


@pytest.mark.slow
def test_forty_minutes_in_one_insert_are_heard_to_their_end(backend):
    """Nothing is dropped, and what is held beside the backlog stays bounded until it is gone."""
    clip = connected_digits(6, seed=1)
    # Within a window of the last buffer: the small checkpoint hears nothing behind one of nothing.
    later_start = 40 * 60 + 36
    audio = np.zeros(len(clip.audio) + later_start * 16_000, dtype=np.float32)
    for first in (0, later_start * 16_000):
        audio[first : first + len(clip.audio)] = clip.audio
    driver = StreamDriver(backend.create_processor(language="en", tick_seconds=10.0))
    driver.insert(audio)
    held, reached = [], -1.0
    while driver.process().processed_up_to > reached:
        reached = driver.processed_up_to
        backlog = 4 * (len(audio) - round(reached * 16_000))
        held.append(driver.processor.stats.state_bytes - backlog)
    driver.finish()
    later = [token for token in driver.tokens if token.start >= later_start]

    assert 61 == len(held)  # calls of four ticks; what is no whole tick waits for the end
    assert max(held) <= 1.02 * held[1]
    assert clip.text.split() == [token.text.strip() for token in later]
    for token, word in zip(later, clip.words, strict=True):
        assert word.start + later_start == pytest.approx(token.start, abs=0.3)
    assert 2 * clip.text.split() == driver.text.split()


@pytest.mark.parametrize("samples", [1, 100, 200, 201])
def test_the_shortest_streams_end_without_words(backend, samples):
    """Too short for a frame, or for what mirrors it."""
    driver = StreamDriver(backend.create_processor())
    driver.insert(silence(1.0)[:samples])
    driver.finish()

    assert () == tuple(driver.tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "tlh"}, "expected one of: ar, cs"),
        ({"language": "de"}, "the model digits hears en only"),
        ({"policy": "local-agreement", "border_seconds": 1.0}, "takes no border_seconds"),
        ({"init_prompt": "Ann <|im_end|>"}, "init_prompt holds '<|im_end|>'"),
        ({"task": "translate"}, "expected one of: transcribe"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_when_it_is_opened(backend, options, message):
    """Nothing is dropped in silence."""
    with pytest.raises(OptionError) as caught:
        backend.create_processor(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [("predict:9.0", "9.0"), ("3.1", "predict:layer.head"), ("nowhere.json", "does not exist")],
)
def test_heads_that_are_not_of_this_model_are_refused(asked, message):
    """The message names what was expected, or what is not there (defect B40)."""
    with pytest.raises(OptionError) as caught:
        load_backend("qwen3-simul", "digits", alignment_heads=asked)
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_fault_in_the_middle_of_a_text_loses_nothing(backend, monkeypatch):
    """A pass that fails changes nothing: tried again, the words are those without the fault."""
    audio = connected_digits(6, seed=7).audio
    sane = told(heard(backend, audio))
    network = type(backend.engine.network)
    real, passes = network.extend, []

    def failing(self, *parts, **asked):
        looked = real(self, *parts, **asked)
        passes.append(1)
        if len(passes) % 11 == 0:
            raise RuntimeError("out of memory")
        return looked

    monkeypatch.setattr(network, "extend", failing)
    driver = StreamDriver(backend.create_processor())
    for first in range(0, len(audio), 16_000):
        driver.insert(audio[first : first + 16_000])
        attempt(driver.drain)
    attempt(driver.finish)

    assert sane == told(driver)


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
