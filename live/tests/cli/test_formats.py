"""Lines and captions in the formats of results."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from wlk_core.tokens import ASRToken
from wlk_live.cli.formats import new_format
from wlk_live.session import Commit, Endpoint


@pytest.mark.parametrize(("style", "count"), [("text", 2), ("srt", 1)])
def test_an_utterance_ends_a_line_of_text_alone(style, count):
    """Captions depend on the tokens only, as in Python, because a subtitle can span a pause."""
    form = new_format(style, has_speakers=False, has_translations=False, in_lines=True)
    words = [ASRToken(0.0, 1.0, " one"), ASRToken(1.2, 2.0, " two")]
    events = [Commit((words[0],), 1.0), Endpoint(1.0, "silence", 1.2), Commit((words[1],), 2.0)]
    outcome = SimpleNamespace(incomplete="stopped")

    text = "".join([*map(form.push, events), form.flush(outcome)])

    assert len(re.findall("one two|one|two", text)) == count
