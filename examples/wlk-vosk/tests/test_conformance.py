"""wlk-vosk keeps the contract on a published model."""

import pytest

from wlk_conformance import BackendConformance


@pytest.fixture(scope="class", autouse=True)
def _published(request, model, phrases, recordings):
    """Set the model of the class, and the words that are spoken."""
    request.cls.model, request.cls.words = model, str(recordings)
    request.cls.options = {"phrases": phrases}


class TestVosk(BackendConformance):
    """Run every rule; `pytest --wlk-speech` adds the speech tier."""

    backend = "vosk"
