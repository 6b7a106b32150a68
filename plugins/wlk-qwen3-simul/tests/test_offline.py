"""A stream commits the words of one decoding over all of its audio."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import BackendUnavailable, load_backend
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.engine.decoder import transcribe
from wlk_qwen3_simul.engine.engine import DecodingOptions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BUNDLED["digits"] / "config.json").is_file(),
        reason="the digits checkpoint is not built",
    ),
]
POLICIES = ["alignatt", "local-agreement"]


@pytest.fixture(scope="module", params=["qwen3-simul", "qwen3-mlx-simul"])
def backend(request):
    """Return either backend with the bundled checkpoint."""
    try:
        loaded = load_backend(request.param, "digits")
    except BackendUnavailable as error:
        pytest.skip(str(error))
    with loaded:
        yield loaded


@pytest.fixture(scope="module")
def clip():
    """Return twelve digits within ten seconds, so that the buffer is never cut."""
    return connected_digits(12, seed=2, gap=(0.1, 0.5))


@pytest.fixture(scope="module")
def offline(backend, clip):
    """Return the text of one decoding over the whole clip, which is its transcript."""
    hypothesis = transcribe(
        clip.audio, engine=backend.engine, options=DecodingOptions(), prompt="", language="en"
    )
    text = "".join(word.text for word in hypothesis.words)

    assert clip.text == text
    return text


@pytest.mark.parametrize("chunk_seconds", [0.1, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_commits_the_words_of_one_decoding(backend, clip, offline, policy, chunk_seconds):
    """Neither the policy nor the length of the chunks changes a word."""
    if backend.spec.name == "qwen3-mlx-simul" and chunk_seconds != 1.0:
        pytest.skip("other tests compare MLX with torch: one chunk length is enough")
    driver = StreamDriver(backend.create_processor(policy=policy, language="en"))
    driver.feed(clip.audio, chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()

    assert offline == driver.text
