"""Translations in what `transcribe` and `listen` write, and how a translator is chosen."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText
from wlk_live.captions.segments import Layout
from wlk_live.cli.formats import Outcome, new_format
from wlk_live.session import Commit, Endpoint, SpeakerTurn, Translation

TRANSLATOR = """
from wlk_core.plugins import TranslatedText, WorkCounters

opened = []

@hookimpl
def wlk_translators():
    return [AnnotatorSpec(
        kind="translator", name="upper", api=1, summary="shouts", load=f"{__name__}:Upper",
        options=[Option(name=n) for n in ("target_language", "source_language", "mark")],
    )]

class Upper:
    stats = WorkCounters()

    def __init__(self, spec, model, **options):
        opened.append((model, options, self))
        self.mark, self.language = options["mark"] or "", options["target_language"]
        self.is_closed = False
        self.reset()

    def reset(self):
        self.tokens = ()

    def insert_tokens(self, tokens):
        self.tokens += tokens

    def process_iter(self, is_last=False):
        found = []
        while self.tokens and (end := self.pause(is_last)):
            if self.mark == "fail":
                raise RuntimeError("out of memory")
            tokens, self.tokens = self.tokens[:end], self.tokens[end:]
            text = "".join(token.text for token in tokens).upper().strip() + self.mark
            found.append(TranslatedText(text, tokens[0].start, tokens[-1].end, self.language))
        return found

    def pause(self, is_last):
        starts = [token.start for token in self.tokens]
        late = [i for i in range(1, len(starts)) if starts[i] - starts[i - 1] > 1.0]
        return (late or [len(starts) if is_last else 0])[0]

    def finish(self):
        return self.process_iter(is_last=True)

    def close(self):
        self.is_closed = True
"""


@pytest.fixture(autouse=True)
def opened(site):
    """Install the translator; return the model, options and object of each one that is opened."""
    site.install("wlk-upper", ["upper"], TRANSLATOR)
    found = importlib.import_module("wlk_upper_plugin").opened
    found.clear()
    return found


TALK = ("--translate-to", "German", "--translator", "upper")
PAUSED = (
    "1\n00:00:00,080 --> 00:00:00,880\none two\nONE TWO\n\n"
    "2\n00:00:03,120 --> 00:00:03,920\nthree\nTHREE\n\n"
)


@pytest.fixture
def talk(save, spoken):
    """Return a recording of two utterances."""
    return save("a.wav", spoken(1, 2), np.zeros(32000), spoken(3))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("text", "one two\n  ONE TWO\nthree\n  THREE\n"),
        ("srt", PAUSED),
        ("vtt", "WEBVTT\n\n" + PAUSED.replace(",", ".").replace("1\n0", "0").replace("2\n0", "0")),
    ],
)
def test_captions_have_two_languages(style, expected, transcribe, talk):
    """A translation is written below the caption in which it begins."""
    assert transcribe(talk, "--format", style, *TALK) == (0, expected, "")


@pytest.mark.parametrize(
    ("languages", "first", "second"),
    [
        ("speech", "one two", "three"),
        ("translation", "ONE TWO", "THREE"),
        ("both", "one two\nONE TWO", "three\nTHREE"),
    ],
)
def test_captions_have_the_chosen_language(languages, first, second, transcribe, talk):
    """The times are those of what was said."""
    done = transcribe(talk, "--format", "srt", *TALK, "--captions", languages)
    text = transcribe(talk, *TALK, "--captions", languages).out
    (_, begin, *found), (_, later, *others) = (
        each.split("\n") for each in done.out.strip().split("\n\n")
    )

    assert (begin[:12], later[:12]) == ("00:00:00,080", "00:00:03,120")
    assert (found, others) == (first.split("\n"), second.split("\n"))
    assert [line.strip() for line in text.splitlines()] == [*found, *others]


def test_a_long_translation_alone_is_divided_into_captions():
    """Each has at most two lines, and they share the seconds of the clause by their length."""
    words = " ".join(f"Wort{number:02}" for number in range(24))
    layout = Layout(languages="translation")
    form = new_format("vtt", has_speakers=True, has_translations=True, layout=layout)
    form.push(SpeakerTurn(SpeakerSpan("Anna", 2.5, 20.0), 14.0))
    form.push(Translation(TranslatedText(words, 2.0, 14.0, "de"), 15.0))
    text = form.flush(Outcome(file="a.wav", settings=None, language="en"))
    cues = [cue.split("\n") for cue in text.strip().split("\n\n")[1:]]

    assert " ".join(" ".join(lines) for _, *lines in cues).replace("<v Anna>", "") == words
    assert all(len(lines) <= 2 and lines[0].startswith("<v Anna>") for _, *lines in cues)
    assert [span[6:9] for span, *_ in cues] == ["02.", "07.", "13."]


def test_json_has_the_translations_and_their_captions(transcribe, talk):
    """Translations have times and a language, and segments have their translations."""
    found = json.loads(transcribe(talk, "--format", "json", *TALK).out)

    assert found["translations"][:1] == [
        {"start": 0.08, "end": 0.8, "text": "ONE TWO", "language": "de"}
    ]
    assert [segment["translation"] for segment in found["segments"]] == ["ONE TWO", "THREE"]


def test_json_lines_have_them_as_they_come(transcribe, talk):
    """A translation comes after the commit of its last word."""
    lines = [
        json.loads(line)
        for line in transcribe(talk, "--format", "jsonl", *TALK).out.split("\n")
        if line
    ]
    kinds = [line["event"] for line in lines if line["event"] in {"commit", "translation"}]

    assert list(dict.fromkeys(kinds)) * 2 == ["commit", "translation", "commit", "translation"]
    assert [line["text"] for line in lines if line["event"] == "translation"][-1] == "THREE"


def test_a_microphone_is_translated_in_every_file(listen, microphone, spoken, tmp_path, opened):
    """Standard output has the translation too, and the translator is closed at the end."""
    microphone(partition(spoken(1, 2, 3), 0.05))
    paths = [tmp_path / f"talk{suffix}" for suffix in (".txt", ".srt", ".json")]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen(
        *saves, *TALK[:-1], "upper=big", "--translator-option", "mark=!", "--language", "en"
    )
    text, srt, document = (path.read_text() for path in paths)
    ((model, options, translator),) = opened

    assert done == (0, "one two three\n  ONE TWO THREE!\n", "")
    assert "\none two three\nONE TWO THREE!\n" in srt
    assert done.out == text
    assert json.loads(document)["segments"][0]["translation"] == "ONE TWO THREE!"
    assert (
        model,
        options,
    ) == ("big", {"target_language": "de", "source_language": "en", "mark": "!"})
    assert translator.is_closed


def test_a_translation_waits_for_its_caption():
    """It is written when the caption ends, at the latest at the end of the utterance."""
    form = new_format("text", has_speakers=False, has_translations=True)
    events = [
        Commit((ASRToken(0.0, 1.0, " one"),), 1.0),
        Translation(TranslatedText("EINS", 0.0, 1.0, "de"), 1.0),
        Endpoint(1.0, "silence", 2.0),
    ]

    assert [form.push(event) for event in events] == ["", "", "one\n  EINS\n"]


@pytest.mark.parametrize("name", ["transcribe", "listen"])
def test_a_failing_translator_loses_no_word(name, command, microphone, spoken, talk):
    """The failure is one line, and only the translations are missing."""
    microphone(partition(spoken(1, 2, 3), 0.05))
    files = [talk] if name == "transcribe" else []
    done = command(name, "--no-vad", *files, *TALK, "--translator-option", "mark=fail")

    assert done.status == 0
    assert " ".join(done.out.split()) == "one two three"
    assert "the translator failed: RuntimeError: out of memory" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--captions", "translation"], 2, "--captions needs a translation: --translate-to LANG"),
        (["--translator", "upper"], 2, "a translator needs a language: --translate-to LANG"),
        ([*TALK, "--task", "translate"], 2, "--translate-to cannot be used together"),
        ([*TALK, "--translator-option", "mark"], 2, "expected an option as KEY=VALUE"),
        ([*TALK, "--translator-option", "size=1"], 2, "size"),
        (["--translate-to", "de"], 1, "no translator called 'opus-mt'.*pip install wlk-translate"),
    ],
)
def test_a_wrong_choice_is_reported_in_one_line(arguments, status, message, transcribe, talk):
    """It is refused before a model is loaded."""
    done = transcribe(talk, *arguments)

    assert done.status == status
    assert done.err.count("\n") == 1
    assert all(part in done.err for part in message.split(".*"))


@pytest.mark.parametrize("arguments", [["backends"], ["doctor", "--fast"]])
def test_annotators_are_listed_below_the_backends(arguments, command):
    """Annotators are listed with their kind and state."""
    lines = command(*arguments).out.splitlines()

    assert "ANNOTATOR  KIND        STATE      SUMMARY" in lines
    assert "upper      translator  installed  shouts" in lines


def test_an_annotator_is_described_with_its_options(command):
    """`backends NAME` prints a translator as a page or, with --json, as a JSON object."""
    page = command("backends", "upper").out
    described = json.loads(command("backends", "upper", "--json").out)

    assert page.startswith("upper  (wlk-upper 0.1.0)\n  shouts\n  state  installed\n  options\n")
    assert (described["kind"], described["distribution"]) == ("translator", "wlk-upper")
    assert described["options"][0]["name"] == "target_language"


def test_translations_are_below_the_words_of_their_channel(transcribe, call):
    """A translator begins anew with each channel."""
    more = ("--channels", "--translate-to", "fr", "--translator", "upper")
    found = json.loads(transcribe(call, *more, "--format", "json").out)
    only = transcribe(call, *more, "--captions", "translation").out

    assert transcribe(call, *more).out.splitlines() == [
        "Channel 1: one two",
        "  ONE TWO",
        "Channel 2: four five six",
        "  FOUR FIVE SIX",
        "Channel 1: three",
        "  THREE",
    ]
    assert only.splitlines() == [
        "Channel 1: ONE TWO",
        "Channel 2: FOUR FIVE SIX",
        "Channel 1: THREE",
    ]
    assert [(each["text"], each["channel"]) for each in found["translations"]] == [
        ("ONE TWO", 0),
        ("FOUR FIVE SIX", 1),
        ("THREE", 0),
    ]
