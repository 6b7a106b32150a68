"""Text filters of a server: those of its command line, and those that clients choose."""

from __future__ import annotations

import asyncio
from contextlib import closing
import io
import json

import attrs
import pytest

from wlk_conformance.testing import CodedToken, encode
from wlk_conformance.testing.annotators import DigitFilter
from wlk_core.options import Option
from wlk_core.plugins import AnnotatorSpec, Replacement
from wlk_core.registry import Registry
from wlk_live.config import choose_settings
from wlk_live.filter_choice import FilterChoice
from wlk_live.session import Commit, End
from wlk_serve.errors import RequestError
from wlk_serve.models.service import Service, loaded_service
from wlk_serve.protocols import ModelCard, StreamOptions, TranscriptionRequest
from wlk_serve.realtime.config import RealtimeConfig, update_config
from wlk_serve.transcriptions.protocol import Transcript, parse_form
from wlk_serve.words import word_records

OPTIONS = (
    Option(name="language"),
    Option(name="file"),
    Option(name="mask", scope="stream"),
    Option(name="size", type=int, scope="stream", minimum=1),
)
SPECS = tuple(
    AnnotatorSpec(
        kind="text-filter", name=name, api=1, summary="rewrites", load="x:y", options=OPTIONS
    )
    for name in ("digits", "words")
)
FILTERED = {"digits": {"mask": "#"}}
ALL, NONE = None, {}


class Masked(DigitFilter):
    """Writes a mask in place of each number, if it has one."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def replace(self, tokens, *, is_last):
        """Return the masks."""
        found, count = super().replace(tokens, is_last=is_last)
        if self.options["mask"] == "fail":
            raise RuntimeError("no mask")
        if self.options["mask"]:
            found = [Replacement(each.start, each.stop, self.options["mask"]) for each in found]
        return found, count


@pytest.fixture
def card(card):
    """Return the card of a server with two text filters."""
    return attrs.evolve(card, filters=SPECS)


@pytest.fixture
def opened():
    """Return the filters that were opened."""
    return []


@pytest.fixture
def registry(monkeypatch, opened):
    """Return a registry that offers the filters."""
    registry, offers = Registry(), Registry.offers

    def load_annotator(_kind, name, **options):
        opened.append(Masked({"mask": None, **options}))
        return opened[-1]

    monkeypatch.setattr(registry, "load_annotator", load_annotator)
    monkeypatch.setattr(
        registry,
        "offers",
        lambda kind: SPECS if kind == "text-filter" else offers(registry, kind),
    )
    return registry


@pytest.fixture
def service(registry):
    """Return a service of the scripted backend whose filter writes digits."""
    spec = attrs.evolve(registry.spec("scripted"), max_concurrent_calls=1)
    choice = FilterChoice(registry, {"digits": {"file": "names.txt"}})
    with registry.load_backend("scripted") as backend:
        card = attrs.evolve(ModelCard.of(spec, None), filters=choice.specs)
        with closing(Service(backend, card, filters=choice)) as service:
            yield service


SPEECH = encode([CodedToken(digit + 1, 2 + 6 * digit) for digit in range(3)], cells=20)


async def streamed(service, options):
    """Return the tokens of a session over a socket."""
    queue = asyncio.Queue()
    stream = await service.open_stream(options, lambda _stream, events: queue.put_nowait(events))
    stream.receive(SPEECH)
    stream.end_audio()
    found = []
    while not (found and isinstance(found[-1], End)):
        found += await queue.get()
    stream.close()
    return [token for event in found if isinstance(event, Commit) for token in event.tokens]


async def recognized(service, request):
    """Return the tokens of a recording."""
    events = service.recognize(io.BytesIO(), request, lambda _seconds: None)
    found = [event async for event in events]
    return [token for event in found if isinstance(event, Commit) for token in event.tokens]


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        pytest.param(ALL, "012", id="of the server"),
        pytest.param(NONE, "zero one two", id="none"),
        pytest.param(FILTERED, "#", id="with an option"),
    ],
)
def test_a_session_has_the_filters_that_its_client_chooses(service, opened, filters, text):
    """They keep the options of the server, get the language, and are closed with the session."""
    options = StreamOptions(
        language="en", encoding="f32le", leaves_out_pauses=False, filters=filters
    )
    tokens = asyncio.run(streamed(service, options))
    service.close()  # waits for what is closed later

    assert "".join(token.text for token in tokens) == text
    for each in opened:
        assert (each.options["file"], each.options["language"]) == ("names.txt", "en")
        assert each.is_closed


def test_a_filter_that_fails_is_logged_and_loses_no_word(service, caplog):
    """The client gets the words as they were spoken, and no error."""
    options = StreamOptions(
        encoding="f32le", leaves_out_pauses=False, filters={"digits": {"mask": "fail"}}
    )
    tokens = asyncio.run(streamed(service, options))

    assert "".join(token.text for token in tokens) == "zero one two"
    assert "the text filter Masked failed: RuntimeError: no mask" in caplog.text


@pytest.mark.parametrize(("task", "text"), [("transcribe", "#"), ("translate", "zero one two")])
def test_a_recording_is_filtered_unless_it_is_translated(service, monkeypatch, task, text):
    """The words of a translation are not in the language of the speech."""
    monkeypatch.setattr("wlk_serve.models.service.silence_gate", lambda: None)
    monkeypatch.setattr(
        "wlk_serve.models.service.decode_file", lambda _file, channel: (each for each in [SPEECH])
    )
    create = Service._processor
    monkeypatch.setattr(  # the scripted backend translates nothing
        Service,
        "_processor",
        lambda self, parts, _task, *more: create(self, parts, "transcribe", *more),
    )
    request = TranscriptionRequest(task=task, language="en", filters=FILTERED)
    tokens = asyncio.run(recognized(service, request))

    assert "".join(token.text for token in tokens) == text


def test_a_filter_that_cannot_be_loaded_fails_before_the_model(registry, opened):
    """The first one is opened with the server, and closed with it."""
    settings = choose_settings(registry, backend="scripted", model="digits")
    with loaded_service(
        registry, settings, max_sessions=1, filters=FilterChoice(registry, {"words": {}})
    ) as service:
        assert [spec.name for spec in service.card.filters] == ["words"]
        assert service.card.record()["wlk"]["filters"] == ["words"]
        assert not opened[0].is_closed
    assert opened[0].is_closed


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["digits"], "wlk.filters"),
        ({"names": {}}, "wlk.filters` with filters among digits, words, got 'names'"),
        ({"digits": {"file": "/etc/passwd"}}, "with options among mask, size, got 'file'"),
        ({"digits": {"size": 0}}, "digits: option size must be between 1 and inf"),
        ({"digits": "all"}, "wlk.filters`: expected `object | null`, got {'digits': 'all'}"),
    ],
)
def test_a_wrong_choice_is_refused(card, value, message):
    """Clients choose among loaded filters, and only options that touch nothing of the server."""
    form = [("wlk.filters", json.dumps(value)), ("model", "small")]
    for refused in (
        lambda: update_config(RealtimeConfig(model="small"), {"wlk": {"filters": value}}, card),
        lambda: parse_form(form, card, "transcribe"),
    ):
        with pytest.raises(RequestError) as caught:
            refused()
        assert message in str(caught.value)
        assert caught.value.status == 400


def test_a_form_that_is_no_json_is_refused(card):
    """So are the filters of a translation."""
    spec = attrs.evolve(card.spec, capabilities=["translation"])
    form = [("wlk.filters", "digits"), ("model", "small")]

    with pytest.raises(RequestError, match="as JSON such as"):
        parse_form(form, card, "transcribe")
    with pytest.raises(RequestError, match="for /v1/audio/transcriptions only"):
        parse_form(form, attrs.evolve(card, spec=spec), "translate")


def test_both_interfaces_take_filters(card):
    """A Realtime session shows what it uses, and takes back what it was shown."""
    form = [("wlk.filters", json.dumps(FILTERED)), ("model", "small")]
    config = update_config(RealtimeConfig(model="small"), {"wlk": {"filters": FILTERED}}, card)
    again = update_config(config, {"wlk": config.record()["wlk"]}, card)

    assert parse_form(form, card, "transcribe").filters == FILTERED
    assert config.record()["wlk"] == {"ignored": [], "filters": FILTERED}
    assert again == config
    assert config.stream_options().filters == FILTERED
    assert update_config(config, {"wlk": {"filters": None}}, card).stream_options().filters is None


def test_a_backend_on_another_machine_gets_words_as_they_are_spoken(card):
    """It sets marks; the session that it belongs to has filters of its own."""
    config = update_config(RealtimeConfig(model="small"), {"include": ["wlk.marks"]}, card)
    chosen = update_config(config, {"wlk": {"filters": FILTERED}}, card)

    assert config.stream_options().filters == {}
    assert chosen.stream_options().filters == FILTERED


def test_words_have_what_was_spoken(token, card):
    """Only words that a filter wrote have it, in sockets and recordings."""
    spoken = (token(" four", 0.0, 0.4), token(" two", 0.5, 0.9))
    (plain,), (joined,) = word_records(spoken[:1]), word_records([token(" 42", spoken=spoken)])
    transcript = Transcript(parse_form([("model", "small")], card, "transcribe"))
    (delta,) = transcript.add(Commit((token(" 42", spoken=spoken),), 1.0))

    assert "spoken" not in plain
    assert joined["spoken"] == word_records(spoken)
    assert delta["words"] == [joined]
