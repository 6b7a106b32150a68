from __future__ import annotations

from functools import partial
import gc
from typing import TYPE_CHECKING, Any, TypeAlias
import weakref

import pytest

from wlk_conformance.testing import silence
from wlk_core.plugins import (
    BackendSpec,
    EngineCalls,
    LoadedBackend,
    LocalAgreementRecognizer,
    Option,
    OptionError,
    StreamClosed,
    StreamConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Toy: TypeAlias = "Callable[..., Any]"

SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(
        Option(name="device", default="cpu"),
        Option(name="tick_seconds", type=float, default=1.0, scope="stream"),
        Option(name="border_seconds", type=float, default=0.5, scope="stream", policies=("x",)),
    ),
    capabilities={"language-forcing"},
    languages=("en", "de"),
    policies=("x", "y"),
)


@pytest.fixture
def toy(coded_engine: Any) -> Callable[..., Any]:
    """Return a function that returns a loaded backend and a list of its streams' configs."""

    def toy(spec: BackendSpec = SPEC) -> Any:
        configs = []

        def open_stream(engine: Any, config: Any, calls: EngineCalls) -> Any:
            configs.append(config)
            return partial(LocalAgreementRecognizer, calls.wrap(engine.transcribe))

        def warmup(engine: Any, calls: EngineCalls) -> None:
            calls.wrap(engine.transcribe)(silence(0.1), prompt="", language=None)

        backend = LoadedBackend(spec, coded_engine(), open_stream=open_stream, warmup=warmup)
        return backend, configs

    return toy


def test_a_stream_is_opened_with_checked_and_complete_options(toy: Toy) -> None:
    """The config has the language, the task, the policy and every stream option."""
    backend, configs = toy()
    backend.create_processor(language="de", policy="y", tick_seconds="2")

    assert configs == [
        StreamConfig(
            language="de",
            task="transcribe",
            policy="y",
            options={"policy": "y", "tick_seconds": 2.0, "border_seconds": 0.5},
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "fr"}, "toy does not support the language 'fr'; expected one of: en, de"),
        ({"language": "germn"}, r"'germn' \(did you mean de\?\); expected one of: en, de"),
        ({"language": "Deutsch"}, "language 'Deutsch'; expected one of: en, de"),
        ({"task": "translate"}, "toy cannot do the task 'translate'"),
        ({"device": "gpu"}, r"device is an option of load_backend\(\.\.\., device=\.\.\.\)"),
        ({"tick_seconds": "soon"}, "option tick_seconds must be a float; got 'soon'"),
        ({"policy": "y", "border_seconds": 1.0}, "policy=y takes no border_seconds"),
    ],
    ids=["language", "misspelt", "unlike", "task", "scope", "value", "policy"],
)
def test_a_stream_that_the_spec_cannot_do_is_refused_before_it_is_opened(
    toy: Toy, arguments: dict[str, Any], message: str
) -> None:
    """Neither the model nor the plugin is called."""
    backend, configs = toy()

    with pytest.raises(OptionError, match=message):
        backend.create_processor(**arguments)
    assert configs == []


def test_the_engine_is_kept_by_open_streams_and_by_nothing_else(toy: Toy) -> None:
    """Once the backend and the last stream are closed, the model is freed, though both are kept."""
    backend, configs = toy()
    engine = weakref.ref(backend.engine)
    stream = backend.create_processor()
    backend.close()
    gc.collect()
    assert engine() is not None
    stream.close()
    configs.clear()
    gc.collect()

    assert engine() is None


def test_a_backend_shows_its_name(toy: Toy) -> None:
    """Backends can be told apart in a debugger or a log."""
    backend, _ = toy()

    assert repr(backend) == "<LoadedBackend toy>"


def test_a_closed_backend_refuses_every_call(toy: Toy) -> None:
    """A second close() does nothing; every other call raises StreamClosed."""
    backend, _ = toy()
    with backend as entered:
        assert entered is backend
    backend.close()

    for call in (backend.create_processor, backend.warmup, lambda: backend.engine):
        with pytest.raises(StreamClosed, match="the backend is closed; load it again"):
            call()
