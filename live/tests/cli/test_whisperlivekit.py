"""Flags, backends and options of whisperlivekit-server are answered with their names here."""

from __future__ import annotations

import pytest

from wlk_live.whisperlivekit import table


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--lan", "en"], "--lan of whisperlivekit is here: --language (see: "),
        (["--lan=en"], "--lan of whisperlivekit is here: --language (see: "),
        (["-b", "3"], "-b of whisperlivekit is here: --option beam_size=N (see: "),
        (["--target-language", "de"], "is here: --translate-to LANG (see: "),
        (["--warmup-file", "x.wav"], "--warmup-file of whisperlivekit is not here: every server "),
        (
            ["--no-vad", "--language=en", "--beams=2", "--lan", "en"],
            "is here: --option beam_size=N. --lan of whisperlivekit is here: --language (see: ",
        ),
    ],
)
def test_a_flag_is_answered_by_name(command, arguments, line):
    """All such flags of a line are answered at once, and those that exist here are left out."""
    for name in (["transcribe", "talk.wav"], ["listen"]):
        done = command(*name, *arguments)

        assert done.status == 2
        assert line in done.err
        assert "--no-vad" not in done.err
        assert len(done.err.splitlines()) == 1


def test_any_other_flag_is_guessed_by_its_spelling(command):
    """The table adds answers and takes none away."""
    done = command("listen", "--langage", "en")

    assert "Did you mean '--language'?" in done.err


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("auto", "here: leave --backend out: "),
        ("simulstreaming", "here: whisper or mlx-whisper"),
        ("qwen3", "here: qwen3-simul\n"),
        ("funasr", "not here; faster-whisper has these languages\n"),
    ],
)
def test_a_backend_is_answered_by_name(transcribe, name, answer):
    """The name here, and no other backend that is spelt alike."""
    done = transcribe("talk.wav", "--backend", name)

    assert done.status == 1
    assert f"wlk-core: the backend {name!r} of whisperlivekit is {answer}" in done.err


@pytest.mark.parametrize(
    "name",
    [
        *("max_context_tokens", "warmup_file", "lora_path"),
        *("direct_english_translation", "target_language"),
    ],
)
def test_a_flag_given_as_an_option_is_answered_by_name(command, name):
    """The answer is that of the flag, on the command line and in the configuration."""
    answer = table("flags")["--" + name.replace("_", "-")].replace("`", "").removeprefix("none")
    for arguments in (
        ["transcribe", "talk.wav", "--option", f"{name}=1"],
        ["config", "set", f"options.toy.{name}", "1"],
    ):
        done = command(*arguments)

        assert done.status == 2
        assert f"toy: the option {name!r} of whisperlivekit is " in done.err
        assert answer in done.err
