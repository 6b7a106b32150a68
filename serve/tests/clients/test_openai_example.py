"""The examples with OpenAI's client, each in its own process."""

from __future__ import annotations

from textwrap import wrap
import wave

import numpy as np
import pytest

from wlk_conformance.testing.digits import clip_path

pytest.importorskip("openai", reason="install openai[realtime], or run nox -s clients")

RATE = 16_000


def test_the_example_prints_the_words_of_the_command_line(server, expected, example):
    """The clip, sent in real time, has the text of `wlk-core transcribe`."""
    printed = example("realtime_file.py", server.address, clip_path("demo"))

    assert printed.strip() == expected.text


def test_the_captions_of_obs_are_the_last_lines(server, expected, example, tmp_path):
    """The file has the lines during the recording, and after it."""
    captions = tmp_path / "captions.txt"
    example("obs_captions.py", server.address, captions, clip_path("demo"))

    assert captions.read_text(encoding="utf-8") == "\n".join(wrap(expected.text, 42)[-2:])
    assert [*tmp_path.iterdir()] == [captions]


def test_the_channels_of_a_call_are_lines_of_their_own(server, expected, example, speech, tmp_path):
    """The first speaker comes first; the right channel begins with three seconds of silence."""
    left = np.frombuffer(speech(RATE), "<i2")
    right = np.concatenate((np.zeros(3 * RATE, "<i2"), left))
    left = np.pad(left, (0, 3 * RATE))
    with wave.open(str(tmp_path / "call.wav"), "wb") as call:
        call.setparams((2, 2, RATE, 0, "NONE", ""))
        call.writeframes(np.stack((left, right), axis=1).tobytes())
    printed = example("stereo_call.py", server.address, tmp_path / "call.wav")

    lines = [line.split(maxsplit=3) for line in printed.splitlines()]
    sides = [[text for *_, side, text in lines if side == name] for name in ("1:", "2:")]
    starts = [float(start) for start, *_ in lines]
    assert [" ".join(side) for side in sides] == [expected.text] * 2
    assert starts == sorted(starts)
    assert starts[1] - starts[0] == pytest.approx(3, abs=0.1)
