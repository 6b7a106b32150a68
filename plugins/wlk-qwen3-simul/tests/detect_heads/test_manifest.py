"""Manifests of clips: JSON lines with words and their times."""

from __future__ import annotations

import json

import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.detect_heads.manifest import EXAMPLE, Clip, ClipWord, read_manifest


def written(folder, *lines):
    """Return the path of a new manifest with *lines*."""
    path = folder / "clips.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_example_of_the_messages_is_a_line(tmp_path):
    """Paths are relative to the manifest; empty lines are skipped."""
    (clip,) = read_manifest(written(tmp_path, "", EXAMPLE, ""))

    word = ClipWord(text="hello", start=0.31, end=0.74)
    assert clip == Clip(audio=tmp_path / "clip.wav", language="en", words=(word,))


def test_words_may_be_written_as_those_of_the_bench(tmp_path):
    """A manifest of wlk-bench has words as lists."""
    line = json.dumps({"audio": "clip.wav", "words": [["hello", 0.31, 0.74]]})

    assert read_manifest(written(tmp_path, line)) == read_manifest(written(tmp_path, EXAMPLE))


@pytest.mark.parametrize(("language", "text"), [("en", "a b"), ("ko", "a b"), ("zh", "ab")])
def test_words_are_joined_as_their_language_is_written(language, text):
    """Some languages are written with spaces between words, others without."""
    words = tuple(ClipWord(text=text, start=0.0, end=1.0) for text in "ab")
    clip = Clip(audio=None, language=language, words=words)

    assert "".join(clip.pieces) == text


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"audio": "a.wav"}',
        '{"audio": "a.wav", "words": [{"text": "", "start": 0, "end": 1}]}',
        '{"audio": "a.wav", "words": [["a", 0.5, 0.4]]}',
        '{"audio": "a.wav", "words": [["a", 0.5, 1.0], ["b", 0.4, 2.0]]}',
    ],
)
def test_an_invalid_line_is_refused_with_its_number_and_an_example(tmp_path, line):
    """The message shows a valid line."""
    with pytest.raises(OptionError, match=r"clips\.jsonl, line 2: ") as caught:
        read_manifest(written(tmp_path, EXAMPLE, line))
    assert "\n" not in str(caught.value)


def test_an_unknown_language_and_a_manifest_without_clips_are_refused(tmp_path):
    """The header needs the name of the language, and the scores need clips."""
    line = json.dumps({"audio": "a.wav", "language": "la", "words": []})

    with pytest.raises(OptionError, match=r"expected language as one of ar, cs, .* zh, got 'la'"):
        read_manifest(written(tmp_path, line))
    with pytest.raises(OptionError, match="lists no clip"):
        read_manifest(written(tmp_path, ""))
    with pytest.raises(OptionError, match="cannot be read"):
        read_manifest(tmp_path / "none.jsonl")
