"""Text filters in what `transcribe` and `listen` write, and how they are chosen."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_live.filter_choice import FilterChoice

FILTER = """
from wlk_conformance.testing.annotators import DigitFilter
from wlk_core.plugins import Replacement

opened = []

@hookimpl
def wlk_text_filters():
    options = [Option(name="language"), Option(name="fault"), Option(name="word", scope="stream")]
    for name in ("digits", "stars"):
        yield AnnotatorSpec(kind="text-filter", name=name, api=1, summary="rewrites",
                            load=f"{__name__}:{name.title()}", options=options)

class Digits(DigitFilter):
    def __init__(self, spec, model, **options):
        super().__init__()
        self.options = options
        opened.append(self)

    def replace(self, tokens, *, is_last):
        if self.options["fault"] == "raise":
            raise RuntimeError("no figures")
        if self.options["fault"] == "print":
            print("figures!")
        return super().replace(tokens, is_last=is_last)

class Stars(Digits):
    def replace(self, tokens, *, is_last):
        texts = [each.text.replace(self.options["word"] or "two", "***") for each in tokens]
        return [Replacement(i, i + 1, text) for i, text in enumerate(texts)], len(tokens)
"""
DIGITS = ("--filter", "digits")


@pytest.fixture(autouse=True)
def opened(site):
    """Install two filters; return each one that is opened."""
    site.install("wlk-rewrite", ["digits", "stars"], FILTER)
    found = importlib.import_module("wlk_rewrite_plugin").opened
    found.clear()
    return found


@pytest.fixture
def talk(save, spoken):
    """Return a recording of two utterances."""
    return save("a.wav", spoken(1, 2), np.zeros(32000), spoken(3))


@pytest.mark.parametrize(
    ("style", "expected"), [("text", "1***3\n"), ("srt", "1\n00:00:00,080 --> 00:00:03,360\n")]
)
def test_filters_change_every_text(style, expected, transcribe, talk):
    """They are called in the order of their options, at the speed of files too."""
    filters = (*DIGITS, "--filter", "stars", "--filter-option", "stars.word=2")
    done = transcribe(talk, "--format", style, *filters)

    assert done.out.startswith(expected)
    assert "1***3" in done.out
    assert (done.status, done.err) == (0, "")


def test_json_keeps_the_words_as_spoken(transcribe, talk):
    """Only a token that was changed has them, with its times and theirs."""
    plain = json.loads(transcribe(talk, "--format", "json").out)
    found = json.loads(transcribe(talk, "--format", "json", *DIGITS).out)
    (token,) = found["tokens"]

    assert [each | {"speaker": None, "language": None} for each in token["spoken"]] == [
        each | {"language": None} for each in plain["tokens"]
    ]
    assert (token["text"], token["start"], token["end"]) == ("123", 0.08, 3.36)
    assert not any("spoken" in each for each in plain["tokens"])


def test_json_lines_show_waiting_words_as_hypothesis(transcribe, talk):
    """A word that waits for the next one is not committed, and is shown meanwhile."""
    lines = [
        json.loads(line) for line in transcribe(talk, "--format", "jsonl", *DIGITS).out.splitlines()
    ]
    kinds = [line["event"] for line in lines]

    assert "one two" in [line["text"] for line in lines if line["event"] == "hypothesis"]
    assert kinds.count("commit") == 1
    assert lines[kinds.index("commit")]["tokens"][0]["text"] == "123"


def test_a_microphone_is_filtered_in_every_file(listen, microphone, spoken, tmp_path, opened):
    """The filter gets the language that was chosen, and is closed at the end."""
    microphone(partition(spoken(1, 2, 3), 0.05))
    path = tmp_path / "talk.json"
    done = listen("--save", path, *DIGITS, "--language", "en")

    assert done == (0, "123\n", "")
    assert json.loads(path.read_text())["segments"][0]["text"] == "123"
    assert [each.options["language"] for each in opened] == ["en"]
    assert all(each.is_closed for each in opened)


@pytest.mark.parametrize("name", ["transcribe", "listen"])
def test_a_failing_filter_loses_no_word(name, command, microphone, spoken, recording):
    """The failure is one line, and the words are those without a filter."""
    microphone(partition(spoken(1, 2, 3), 0.05))
    files = [recording("a.wav", 1, 2, 3)] if name == "transcribe" else []
    done = command(name, "--no-vad", *files, *DIGITS, "--filter-option", "digits.fault=raise")

    assert (done.status, done.out) == (0, "one two three\n")
    assert "the text filter Digits failed: RuntimeError: no figures" in done.err
    assert done.err.count("\n") == 1


def test_what_a_filter_prints_is_not_in_the_result(transcribe, talk):
    """It goes to standard error, as what any plugin prints."""
    done = transcribe(talk, *DIGITS, "--filter-option", "digits.fault=print")

    assert done.out == "123\n"
    assert "figures!" in done.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--filter", "digit"], 1, "no text-filter called 'digit'.*did you mean digits?"),
        (["--filter-option", "digits.word=x"], 2, "needs the filter: --filter digits"),
        ([*DIGITS, "--filter-option", "word=x"], 2, "expected NAME.KEY=VALUE, got 'word=x'"),
        ([*DIGITS, "--filter-option", "digits.word"], 2, "KEY=VALUE"),
        ([*DIGITS, "--filter-option", "digits.size=1"], 2, "digits: no option is called 'size'"),
        ([*DIGITS, "--task", "translate"], 2, "--filter cannot be used together"),
    ],
)
def test_a_wrong_choice_is_reported_in_one_line(arguments, status, message, transcribe, talk):
    """It is refused before a model is loaded."""
    done = transcribe(talk, *arguments)

    assert done.status == status
    assert done.err.count("\n") == 1
    assert all(part in done.err for part in message.split(".*"))


def test_the_configuration_chooses_filters(command, transcribe, talk, tmp_path):
    """Flags replace them, and a flag sets another value of an option."""
    assert command("config", "set", "filters", "stars, digits").status == 0
    assert command("config", "set", "options.stars.word", "three").status == 0

    def words(*arguments):
        return transcribe(talk, *arguments).out.split()

    assert (tmp_path / "wlk" / "config.toml").read_text() == (
        'filters = ["stars", "digits"]\n\n[options.stars]\nword = "three"\n'
    )
    assert words() == ["12", "***"]
    assert words("--filter", "stars") == ["one", "two", "***"]
    starred = words("--filter", "stars", "--filter-option", "stars.word=one")
    assert starred == ["***", "two", "three"]
    assert words("--filter", "none") == ["one", "two", "three"]
    unset = {"filters": (), "filter_pairs": ()}
    assert FilterChoice.of(None, unset, configured=False).options == {}  # as for translations


def test_a_mistake_of_the_configuration_names_its_file(command, transcribe, talk, tmp_path):
    """A filter that is gone, and one that is not set because it is not installed."""
    path = tmp_path / "wlk" / "config.toml"
    refused = command("config", "set", "filters", "numbers")
    path.parent.mkdir(exist_ok=True)
    path.write_text('filters = ["numbers"]\n')

    assert refused.err == (
        "wlk-core: filters: no text filter called 'numbers'; installed: digits, stars\n"
    )
    done = transcribe(talk)
    assert done.status == 1
    assert f"{path}, key filters: no text-filter called 'numbers'" in done.err


@pytest.mark.parametrize("arguments", [["backends"], ["doctor", "--fast"]])
def test_filters_are_listed_with_the_annotators(arguments, command):
    """They are listed with their kind and state."""
    assert "digits     text-filter  installed  rewrites" in command(*arguments).out
