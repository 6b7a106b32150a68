"""Backends of models with delayed streams, around an engine that always says the same."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest

from wlk_core import (
    BackendError,
    BackendSpec,
    ModelNotFoundError,
    Option,
    OptionError,
    StreamClosed,
    WorkCounters,
)
from wlk_core.streaming import LogMel, TokenPrediction
from wlk_core.testing import StreamDriver, noise
from wlk_voxtral.backend import DelayedBackend, VoxtralFormat
from wlk_voxtral.recognizer import silence_features

PAD, WORD, HI = 2, 3, 4
TEKKEN = {
    "config": {"default_vocab_size": 5, "default_num_special_tokens": 4},
    "vocab": [{"rank": 0, "token_bytes": "IGhp"}],  # " hi"
    "special_tokens": [
        {"rank": rank, "token_str": name}
        for rank, name in enumerate(("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]"))
    ],
    "audio": {"transcription_format": "streaming", "transcription_delay_ms": 480},
}
SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load=lambda model: model,
    options=(
        Option(name="delay_ms", type=int, default=None, scope="stream"),
        Option(name="draft_steps", type=int, default=8, minimum=1, scope="stream"),
    ),
)


@attrs.frozen
class State:
    """How many cells of a run were heard."""

    cells: int
    nbytes: int = 100


@attrs.define
class Engine:
    """Says " hi" at the sixth step of a run, and remembers what it was asked."""

    asked: list = attrs.field(factory=list)

    def decode(self, mel, state, *, delay_steps, draft_steps):
        """Hear the cells; the first of a run lies in front of its first step."""
        self.asked.append((mel, state, delay_steps, draft_steps))
        first = 0 if state is None else state.cells
        behind = first + len(mel) // 8
        steps = [cell - 1 - delay_steps for cell in range(first, behind)]
        choices = [
            TokenPrediction({5: WORD, 6: HI}.get(step, PAD), 0.5) for step in steps if step >= 0
        ]
        return choices, State(behind), WorkCounters(decoder_positions=len(steps))


@pytest.fixture
def model(tmp_path):
    """Return a directory with a tokenizer and, beside it, what its checkpoint asks for."""
    (tmp_path / "tekken.json").write_text(json.dumps(TEKKEN))
    (tmp_path / "wlk.json").write_text('{"dtype": "float32", "delays_ms": [240, 480]}')
    return tmp_path


def read(directory):
    """Return the format of the model in a directory."""
    return VoxtralFormat.read(directory, name="tiny", log_mel=LogMel())


@pytest.fixture
def backend(model):
    """Return a backend around the engine."""
    return DelayedBackend(SPEC, Engine(), read(model))


def hear(backend, **options):
    """Return a driver whose stream heard two seconds to the end."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(noise(2.0), chunk_seconds=0.5)
    driver.finish()
    return driver


def test_a_checkpoint_says_what_it_wants(model):
    """The dtype and the delays it was trained for stand in wlk.json."""
    told = read(model)

    assert ("tiny", "float32", (240, 480)) == (told.name, told.dtype, told.delays_ms)


def test_a_checkpoint_without_wishes_has_any_delay_of_the_format(model):
    """Most are published without a wlk.json."""
    (model / "wlk.json").unlink()
    told = read(model)

    assert (None, None) == (told.dtype, told.delays_ms)
    assert 30 == told.delay_steps(2400)


@pytest.mark.parametrize(("delay_ms", "steps"), [(None, 6), (240, 3), (480, 6)])
def test_a_delay_is_a_number_of_steps(model, delay_ms, steps):
    """A step is 80 ms; unasked, the tokenizer says how many."""
    assert steps == read(model).delay_steps(delay_ms)


def test_a_delay_the_checkpoint_was_not_trained_for_is_refused(model):
    """The message names the model and the delays it has."""
    told = "the model tiny was trained for a delay_ms of 240, 480, got 800"

    with pytest.raises(OptionError, match=told):
        read(model).delay_steps(800)


@pytest.mark.parametrize("delay_ms", [0, 100, 2480])
def test_a_delay_the_format_does_not_have_is_refused(model, delay_ms):
    """The message names the option and the delays there are."""
    (model / "wlk.json").unlink()

    with pytest.raises(OptionError, match=r"delay_ms: a delay is a multiple of 80 ms from 80 to"):
        read(model).delay_steps(delay_ms)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("tekken.json", None, r"holds no tekken\.json, .*; pull the model again, or copy the file"),
        ("tekken.json", "{}", r"tekken\.json is no tokenizer of .*'config'; pull the model again"),
        ("wlk.json", "{", r"wlk\.json is damaged: .*; pull the model again"),
    ],
    ids=["no tokenizer", "another file", "damaged wishes"],
)
def test_a_directory_of_no_such_model_is_refused(model, file, content, told):
    """The message names the file and what helps."""
    (model / file).unlink()
    if content is not None:
        (model / file).write_text(content)

    with pytest.raises(ModelNotFoundError, match=told):
        read(model)


@pytest.mark.parametrize(("delay_ms", "steps"), [(None, 6), (240, 3)])
def test_a_stream_hears_at_the_delay_it_was_opened_with(backend, delay_ms, steps):
    """Words and their times are those of the audio, however late they are told."""
    driver = hear(backend, delay_ms=delay_ms, draft_steps=2)

    assert [("hi", 0.48)] == [(token.text, pytest.approx(token.end)) for token in driver.tokens]
    assert {(steps, 2)} == {asked[2:] for asked in backend.engine.asked}


def test_streams_on_one_model_share_nothing(backend):
    """Every run begins without a state."""
    texts = [hear(backend).text for _ in range(2)]

    assert ["hi", "hi"] == texts
    assert 2 == sum(state is None for _, state, *_ in backend.engine.asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"language": "en"}, "toy detects the language by itself"),
        ({"task": "translate"}, "toy cannot do the task 'translate'"),
        ({"delay_ms": 800}, "trained for a delay_ms of 240, 480"),
        ({"draft_steps": 0}, "draft_steps"),
        ({"beam": 5}, "no option is called 'beam'"),
    ],
    ids=["language", "task", "delay", "draft", "option"],
)
def test_a_stream_refuses_what_the_spec_does_not_declare(backend, asked, told):
    """Nothing that is asked for is dropped in silence."""
    with pytest.raises(OptionError, match=told):
        backend.create_processor(**asked)
    assert [] == backend.engine.asked


def test_the_backend_shows_its_declaration(backend):
    """It is the one it was made with."""
    assert SPEC is backend.spec


def test_warming_up_hears_one_cell_of_silence(backend):
    """At the delay that a stream has unasked, and no stream begins with what came of it."""
    backend.warmup()
    ((mel, state, *options),) = backend.engine.asked

    np.testing.assert_array_equal(silence_features(LogMel(), 1), mel)
    assert (None, [6, 1]) == (state, options)


def test_a_closed_backend_refuses_streams_and_leaves_open_ones(backend):
    """Whoever has a stream hears it to its end."""
    driver = StreamDriver(backend.create_processor())
    with backend as entered:
        assert entered is backend
    for refused in (backend.create_processor, backend.warmup):
        with pytest.raises(StreamClosed, match="the backend is closed; load it again"):
            refused()
    driver.feed(noise(2.0))
    driver.finish()

    assert "hi" == driver.text


def test_calls_are_counted_held_and_failed_for_the_conformance_suite(backend):
    """A call that was asked to fail does not reach the engine, and can be repeated."""
    held = []
    backend.before_call = lambda: held.append(backend.calls)
    backend.fail_at = frozenset({1})
    driver = StreamDriver(backend.create_processor())
    driver.insert(noise(2.0))
    with pytest.raises(BackendError, match="engine call 1 was asked to fail"):
        driver.drain()
    driver.finish()

    assert "hi" == driver.text
    assert list(range(backend.calls)) == held
    assert backend.calls - 1 == len(backend.engine.asked)
