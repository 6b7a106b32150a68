"""wlk-pocketsphinx keeps the contract."""

from wlk_conformance import BackendConformance


class TestPocketSphinx(BackendConformance):
    """Run every rule; `pytest --wlk-speech` adds the speech tier."""

    backend = "pocketsphinx"
    model = "digits"
