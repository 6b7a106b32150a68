"""OpenAI's own client reads the speakers of a server whose diarizer is scripted."""

from __future__ import annotations

import base64

import numpy as np
import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("faster_whisper")

from wlk_conformance.testing.annotators import ScriptedDiarizer  # noqa: E402 -- after the skips
from wlk_conformance.testing.digits import clip_path, load_clip  # noqa: E402 -- as above
from wlk_core.tokens import SpeakerSpan  # noqa: E402 -- as above

pytestmark = [
    pytest.mark.slow,
    # openai 3.54 opens its sockets in the way that websockets 17.1 deprecates.
    pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager"),
]
CLIP = "demo"
SEGMENT = "conversation.item.input_audio_transcription.segment"


@pytest.fixture(scope="module")
def words(digits):
    """Return what the core makes of the clip."""
    backend, _ = digits
    return backend.transcribe(clip_path(CLIP), language="en").words


@pytest.fixture
def change(words):
    """Return the time in the middle of the words at which the speaker changes."""
    return words[len(words) // 2].start


@pytest.fixture
def client(serve, digits, change):
    """Return the client of a server with a scripted diarizer."""
    spans = [SpeakerSpan("anna", 0.0, change), SpeakerSpan("bert", change, load_clip(CLIP).seconds)]
    with (
        serve(digits, open_diarizer=lambda: ScriptedDiarizer(spans, max_delay=0.5)) as (address, _),
        openai.OpenAI(base_url=address, api_key="secret", max_retries=0) as client,
    ):
        yield client


def by_speaker(segments):
    """Return the words of each speaker in their order."""
    found = {}
    for segment in segments:
        found.setdefault(segment.speaker, []).extend(segment.text.split())
    return found


@pytest.fixture
def expected(words, change):
    """Return the words of each speaker."""
    texts = {"anna": [], "bert": []}
    for word in words:
        texts["anna" if word.start < change else "bert"].append(word.text.strip())
    return texts


def test_a_session_has_the_same_speakers(client, expected, words):
    """Its second half is certain at the end of the diarizer's delay, with later audio."""
    audio = np.concatenate([load_clip(CLIP).audio, np.zeros(16_000)])
    data = (np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes()
    format_ = {"type": "audio/pcm", "rate": 16_000}
    session = {"type": "transcription", "audio": {"input": {"format": format_}}}
    found = []
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(session=session)
        for part in (data, data):  # its delay passes while audio comes
            for start in range(0, len(part), 32_000):
                text = base64.b64encode(part[start : start + 32_000]).decode()
                connection.input_audio_buffer.append(audio=text)
        for event in connection:
            if event.type == SEGMENT:
                found.append(event)
            if sum(len(segment.text.split()) for segment in found) >= len(words):
                break

    assert expected == by_speaker(found)
