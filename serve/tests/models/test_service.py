"""Streams of a service: they open without blocking the event loop, and close with all parts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
import io
import threading
from types import SimpleNamespace
import wave

import attrs
import numpy as np
import pytest

from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_conformance.testing.digits import clip_path
from wlk_core.errors import BackendError, OptionError, StreamClosed
from wlk_core.options import Option
from wlk_core.registry import Registry
from wlk_core.tokens import SpeakerSpan
from wlk_live.audio import decode_file
from wlk_live.config import Settings, choose_settings
from wlk_live.session import End, SpeakerTurn
from wlk_live.session.session import Pending
from wlk_serve.errors import RequestError
from wlk_serve.models.service import Service, loaded_service
from wlk_serve.protocols import ModelCard, StreamOptions, TranscriptionRequest

WAIT = 60.0  # seconds after which a test that waits for a thread has failed
CONFIG = StreamOptions(language="en", leaves_out_pauses=False)


class ClosedProcessor:
    """A processor that records its close, which may fail."""

    def __init__(self, processor, backend):
        self._processor = processor
        self._backend = backend

    def __getattr__(self, name):
        return getattr(self._processor, name)

    def close(self):
        """Close the processor, or fail after that."""
        self._processor.close()
        self._backend.closed.set()
        if self._backend.close_error is not None:
            raise self._backend.close_error


@attrs.define(eq=False)
class SlowBackend:
    """A backend whose streams open when the test releases them."""

    backend: object
    open_error: BaseException | None = None
    languages: tuple[str | None, ...] | None = None  # None for any
    opened: int = 0
    close_error: Exception | None = None
    begun: threading.Event = attrs.field(factory=threading.Event)
    released: threading.Event = attrs.field(factory=threading.Event)
    closed: threading.Event = attrs.field(factory=threading.Event)

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def create_processor(self, **options):
        """Wait for the release; then return a processor or fail."""
        self.begun.set()
        self.opened += 1
        assert self.released.wait(WAIT)
        if self.languages is not None:
            if options["language"] not in self.languages or options["task"] != "transcribe":
                raise OptionError("another model")
            options = {}
        if self.open_error is not None:
            raise self.open_error
        return ClosedProcessor(self.backend.create_processor(**options), self)


@pytest.fixture(scope="module")
def scripted():
    """Return the loaded scripted backend and its card, limited to one engine call at a time."""
    registry = Registry()
    spec = attrs.evolve(registry.spec("scripted"), max_concurrent_calls=1)
    with registry.load_backend("scripted") as backend:
        yield backend, ModelCard.of(spec, None)


@pytest.fixture
def backend(scripted):
    """Return a backend that waits for its release."""
    return SlowBackend(scripted[0])


@pytest.fixture
def service(scripted, backend):
    """Return a service with that backend."""
    with closing(Service(backend, scripted[1])) as service:
        yield service
        backend.released.set()


def nothing(*_arguments):
    """Ignore events."""


async def begun(backend):
    """Wait until a stream is being opened, while the event loop keeps running."""
    assert await asyncio.to_thread(backend.begun.wait, WAIT)


def test_the_owner_of_a_stream_learns_of_steps_without_words(service, backend):
    """A socket that waits for its audio to be decoded is woken by them."""
    backend.released.set()
    stepped = threading.Event()

    async def run():
        stream = await service.open_stream(CONFIG, nothing, after_step=stepped.set)
        stream.receive(np.zeros(1600, np.float32))
        woken = await asyncio.to_thread(stepped.wait, WAIT)
        stream.close()
        return woken

    assert asyncio.run(run())


@pytest.mark.parametrize(("max_call_seconds", "is_ready"), [(300.0, True), (0.0, False)])
def test_a_canary_may_wait_behind_a_long_call_of_a_recording(
    service, backend, monkeypatch, max_call_seconds, is_ready
):
    """The engine is busy; it counts as broken only if that call takes too long."""
    monkeypatch.setattr("wlk_serve.models.service._CANARY_TIMEOUT", 0.1)
    monkeypatch.setattr("wlk_serve.models.service._MAX_CALL_SECONDS", max_call_seconds)
    backend.released.set()

    running, release = threading.Event(), threading.Event()

    def long_call():
        running.set()
        release.wait(WAIT)
        return []

    recording = SimpleNamespace(pending=Pending(), is_over=True, step=long_call)
    service._scheduler.attach(recording, nothing, is_background=True)
    assert running.wait(WAIT)

    def check():
        try:
            asyncio.run(service.check_canary(0.0))
        finally:
            release.set()

    if is_ready:
        check()
        return
    with pytest.raises(RequestError, match="no engine call ended in time"):
        check()


def test_a_canary_that_fails_answers_all_who_wait_for_it_without_its_cause(service, backend):
    """One after another, callers would wait ten seconds each; the cause is not for the public."""
    backend.open_error = BackendError("/srv/model is broken")

    async def run():
        canaries = [asyncio.create_task(service.check_canary(0.0)) for _ in range(3)]
        await begun(backend)
        backend.released.set()
        return await asyncio.gather(*canaries, return_exceptions=True)

    errors = asyncio.run(run())

    assert [error.status for error in errors] == [503] * 3
    assert backend.opened == 1
    assert "/srv" not in str(errors)


def test_a_card_has_the_languages_of_the_loaded_model(service, backend):
    """The backend declares the languages of all models; a session would fail at its first audio."""
    backend.released.set()
    backend.languages = ("fr", None)
    service.card = attrs.evolve(
        service.card,
        spec=attrs.evolve(
            service.card.spec,
            languages=("en", "fr"),
            capabilities=("language-forcing", "translation"),
        ),
    )

    service.probe_model()

    assert service.card.spec.languages == ("fr",)
    assert "translation" not in service.card.spec.capabilities


def test_a_client_that_leaves_during_the_opening_leaves_nothing_open(service, backend):
    """The stream is closed as soon as it is open."""

    async def run():
        opening = asyncio.create_task(service.open_stream(CONFIG, nothing))
        await begun(backend)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not backend.closed.is_set()

    asyncio.run(run())
    backend.released.set()

    assert backend.closed.wait(WAIT)


@pytest.mark.parametrize(
    ("language", "asked"),
    [("en,de", (None, "en,de")), ("en", ("en", "en,fr")), (None, (None, "en,fr"))],
    ids=["several", "one", "detected"],
)
def test_several_languages_reach_the_backend_as_an_option(scripted, language, asked):
    """Without them, a language is detected among those of the server."""
    found = []

    class Asked:
        def create_processor(self, *, language, task, languages):
            found.append((language, task, languages))
            raise OptionError("no stream is needed")

    async def run(service):
        with pytest.raises(OptionError):
            await service.open_stream(StreamOptions(language=language), nothing)

    options = {"languages": "en,fr"}
    with closing(Service(Asked(), scripted[1], processor_options=options)) as service:
        asyncio.run(run(service))

    assert found == [(asked[0], "transcribe", asked[1])]


@pytest.mark.parametrize(
    ("own", "asked"),
    [({}, ["Godot", None]), ({"keyterms": "wlk"}, ["Godot", "wlk"])],
    ids=["none", "the operator's"],
)
def test_keyterms_that_a_model_refuses_cost_a_client_no_words(scripted, caplog, own, asked):
    """The search of sherpa-onnx may take none, or its model not spell one of them."""
    found = []

    class Speller:
        def create_processor(self, *, keyterms=None, **options):
            found.append(keyterms)
            if keyterms == "Godot":
                raise OptionError("cannot spell Godot")
            return scripted[0].create_processor(**options)

    async def run(service):
        opened = await service.open_stream(attrs.evolve(CONFIG, keyterms="Godot"), nothing)
        opened.close()

    with closing(Service(Speller(), scripted[1], processor_options=own)) as service:
        asyncio.run(run(service))

    assert found == asked
    assert "left out: cannot spell Godot" in caplog.text


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OptionError("no such language"), OptionError),
        (BackendError("not now"), BackendError),
        (SystemExit("of a plugin"), BackendError),  # it would end the event loop
    ],
)
def test_what_a_backend_raises_reaches_the_caller(service, backend, error, kind):
    """Errors of any type arrive as errors of the core."""
    backend.open_error = error
    backend.released.set()

    with pytest.raises(kind, match=str(error)):
        asyncio.run(service.open_stream(CONFIG, nothing))


@pytest.fixture(scope="module")
def recording():
    """Return a recording of minutes of speech, and its length in seconds."""
    samples = np.concatenate(list(decode_file(clip_path("demo"))) * 15)
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 16_000, 0, "NONE", ""))
        writer.writeframes((samples * 32_767).astype("<i2").tobytes())
    return file.getvalue(), len(samples) / 16_000


def test_a_recording_is_released_although_its_task_is_cancelled_again(service, backend, recording):
    """This happens if a shutdown follows a client's disconnect while every thread is busy."""
    backend.released.set()
    is_free = threading.Event()

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        request = TranscriptionRequest(task="transcribe")
        events = service.recognize(io.BytesIO(recording[0]), request, lambda _seconds: None)
        await anext(events)
        loop.run_in_executor(None, is_free.wait, WAIT)
        closing = asyncio.create_task(events.aclose())
        for _ in range(2):
            await asyncio.sleep(0.05)
            closing.cancel()
        await asyncio.wait({closing})
        is_free.set()

    asyncio.run(run())

    assert backend.closed.is_set()


def test_a_recording_waits_for_a_client_that_reads_nothing(
    service, backend, recording, monkeypatch
):
    """Unread events of hours would fill the memory; decoding resumes when the client reads."""
    monkeypatch.setattr("wlk_serve.models.service._MAX_UNREAD_STEPS", 2)
    backend.released.set()
    scheduler, decoded = service._scheduler, []

    def wait_until_idle():
        with scheduler.lock:
            while scheduler._stepping or scheduler._groups[0].waiting:
                scheduler._step_ended.wait(WAIT)

    async def run():
        request = TranscriptionRequest(task="transcribe")
        events = service.recognize(io.BytesIO(recording[0]), request, decoded.append)
        await anext(events)
        await asyncio.to_thread(wait_until_idle)
        unread = sum(decoded)
        await anext(events)
        while sum(decoded) == unread:
            await anext(events)
        await events.aclose()
        return unread

    assert asyncio.run(run()) < recording[1] / 2


def test_a_stream_that_cannot_be_stepped_is_closed(service, backend):
    """This happens if the service is closed while its backend opens the stream."""
    backend.released.set()
    service._scheduler.close()

    with pytest.raises(StreamClosed):
        asyncio.run(service.open_stream(CONFIG, nothing))
    assert backend.closed.wait(WAIT)


def test_a_stream_whose_model_cannot_be_closed_is_logged_and_frees_the_rest(
    scripted, backend, caplog
):
    """The failure does not keep the diarizer, the session and the detector alive."""
    diarizer = ScriptedDiarizer([])
    backend.released.set()
    backend.close_error = BackendError("the state could not be released")

    with closing(Service(backend, scripted[1], openers={"diarizer": lambda: diarizer})) as service:
        stream = asyncio.run(service.open_stream(CONFIG, nothing))
        stream.close()

    assert diarizer.is_closed
    assert not hasattr(stream, "session")
    assert "the state could not be released" in caplog.text


def test_a_session_that_asks_for_it_is_translated(scripted, caplog):
    """The translator gets the session's language; if no model has it, the words still come."""
    opened = []

    def open_translator(language):
        opened.append(language)
        if language == "de":
            raise OptionError("no model is known from de to de")
        return ScriptedDiarizer([])

    async def run(service):
        translated = attrs.evolve(CONFIG, translates=True)
        for settings in (CONFIG, translated, attrs.evolve(translated, language="de")):
            (await service.open_stream(settings, nothing)).close()

    with closing(Service(*scripted, openers={"translator": open_translator})) as service:
        asyncio.run(run(service))

    assert opened == ["en", "de"]
    assert "a session is not translated: no model is known from de to de" in caplog.text


def test_annotators_are_loaded_before_the_model(monkeypatch):
    """The diarizer declares its delay; both stay open, so that later ones share their models."""
    opened, registry = {}, Registry()
    kinds = dict.fromkeys(("diarizer", "turn-detector"), ("scripted", {"size": "1"}))

    def load_annotator(kind, name, *, size):
        return opened.setdefault((kind, name, size), ScriptedDiarizer([], max_delay=0.5))

    monkeypatch.setattr(registry, "load_annotator", load_annotator)
    settings = choose_settings(registry, backend="scripted", model="digits")
    load = Settings.load

    def noting_load(*arguments):
        assert list(opened) == [(kind, "scripted", "1") for kind in kinds]
        return load(*arguments)

    monkeypatch.setattr(Settings, "load", noting_load)
    with loaded_service(registry, settings, max_sessions=1, annotators=kinds) as service:
        assert (service.card.speaker_delay, service.card.detects_turns) == (0.5, True)
        assert not any(annotator.is_closed for annotator in opened.values())
    assert all(annotator.is_closed for annotator in opened.values())


@pytest.mark.parametrize(("detects_turns", "expected"), [(True, ["opened"]), (False, [])])
def test_a_session_whose_settings_have_it_gets_a_turn_detector(scripted, detects_turns, expected):
    """Each session has its own; a protocol that ends turns by silence gets none."""
    opened, config = [], attrs.evolve(CONFIG, detects_turns=detects_turns)
    openers = {"turn-detector": lambda: opened.append("opened") or ScriptedDiarizer([])}
    with closing(Service(*scripted, openers=openers)) as service:
        asyncio.run(service.open_stream(config, nothing)).close()

    assert opened == expected


@pytest.mark.parametrize(
    ("chosen", "max_sessions", "expected"),
    [
        ({}, 2, {"cpu_threads": 1}),
        ({}, 1, {}),
        ({"cpu_threads": "auto"}, 2, {"cpu_threads": None}),
        ({"cpu_threads": 4}, 2, {"cpu_threads": 4}),
    ],
)
def test_a_call_has_one_thread_where_several_sessions_run(
    spec, monkeypatch, chosen, max_sessions, expected
):
    """So calls run side by side; a user's own choice is kept."""
    threads = Option(name="cpu_threads", type=int, is_auto_allowed=True, help="threads of a call")
    spec, loaded = attrs.evolve(spec, options=(threads,)), []
    options = spec.split_options(chosen)

    def load(settings, _registry):
        loaded.append(settings.options.backend)
        raise BackendError("not this one")

    monkeypatch.setattr(Settings, "load", load)
    settings = Settings(spec=spec, model="small", language=None, options=options)
    with pytest.raises(BackendError), loaded_service(None, settings, max_sessions=max_sessions):
        pass

    assert loaded == [expected]


def test_the_server_names_the_first_speakers_that_its_diarizer_numbers(monkeypatch):
    """Every protocol gets these names; further speakers and known voices keep theirs."""
    registry = Registry()
    labels = enumerate((0, 1, "Clara"))
    script = [SpeakerSpan(label, float(second), second + 1.0) for second, label in labels]
    monkeypatch.setattr(registry, "load_annotator", lambda *_: ScriptedDiarizer(script))
    settings = choose_settings(registry, backend="scripted", model="digits")
    found = []

    async def run(service):
        is_over = asyncio.Event()

        def take(_stream, events):
            found.extend(events)
            if isinstance(found[-1], End):
                is_over.set()

        stream = await service.open_stream(CONFIG, take)
        stream.session.receive(np.zeros(4 * 16_000, np.float32))
        stream.session.end_audio()
        stream.notify()
        await is_over.wait()
        stream.close()

    with loaded_service(
        registry,
        settings,
        max_sessions=1,
        annotators={"diarizer": ("who", {})},
        speaker_names=["Anna"],
    ) as service:
        asyncio.run(asyncio.wait_for(run(service), 30))

    speakers = [event.span.speaker for event in found if isinstance(event, SpeakerTurn)]
    assert speakers == ["Anna", 1, "Clara"]
