"""Streams of both frameworks on the digits checkpoint commit the same words."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits
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


@pytest.mark.slow
def test_a_cut_inside_a_word_costs_no_other_word(backend):
    """The cut at 8 s leaves half of a digit in the buffer, which the forced text does not have."""
    clips = [
        connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8) for seed in range(5)
    ]
    audio = np.concatenate([clip.audio for clip in clips])
    driver = stream(backend, audio, language="en", policy="alignatt")

    assert " ".join(clip.text for clip in clips) == driver.text.strip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "tlh"}, "expected one of: ar, cs"),
        ({"language": "de"}, "the model digits recognises en only"),
        ({"prompt": "Ann <|im_end|>"}, "prompt or keyterms contains '<|im_end|>'"),
    ],
)
def test_an_unsupported_stream_is_refused_when_it_is_opened(backend, options, message):
    """No option is dropped in silence."""
    with pytest.raises(OptionError) as caught:
        backend.create_processor(**options)
    assert message in str(caught.value)
