"""What a child is started with."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from wlk_core import load_backend
from wlk_core.errors import OptionError
from wlk_realtime.realtime.child_command import commands_of


def test_one_backend_runs_in_every_environment():
    """Or each has its own."""
    both = f"{sys.executable}, {sys.prefix}"

    same = commands_of(both, "scripted", "digits", "")
    different = commands_of(both, "whisper,mlx-whisper", None, "")

    assert ["scripted", "scripted"] == [command.backend for command in same]
    assert ["whisper", "mlx-whisper"] == [command.backend for command in different]
    assert Path(sys.prefix, "bin", "python") == same[1].python


def test_options_of_the_backend_are_passed_on():
    """They are separated by spaces, and quoted as in a shell."""
    (command,) = commands_of(sys.executable, "whisper", "tiny", "device=cpu prompt='Anna, Ben'")

    arguments = command.arguments

    assert ["--option", "device=cpu", "--option", "prompt=Anna, Ben"] == arguments[-4:]
    assert ["--model", "tiny"] == arguments[-6:-4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"python": "/no/such/python", "backend": "x"}, "option python as the Python"),
        ({"python": __file__, "backend": "x"}, "option python as the Python"),
        ({"python": sys.executable}, "-m wlk_core backends"),
        ({"python": sys.executable, "backend": "realtime"}, "-m wlk_core backends"),
        ({"python": sys.executable, "backend": "a,b"}, "one for each Python"),
        (
            {"python": sys.executable, "backend": "x", "backend_options": "a='"},
            "backend_options as KEY=VALUE",
        ),
        ({"backend": "whisper"}, "--option python="),
    ],
    ids=[
        "no file", "no program", "no backend", "itself", "two for one", "a quote", "no python",
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_refused_before(options, message):
    """The line names the option and what to type."""
    with pytest.raises(OptionError, match=message) as raised:
        load_backend("realtime", "digits", **options)

    assert "\n" not in str(raised.value)


def test_an_address_is_no_model_of_another_environment():
    """It names a server that runs already."""
    with pytest.raises(OptionError, match="names another one"):
        commands_of(sys.executable, "scripted", "ws://gpu/v1/realtime", "")
