"""wlk-hello keeps the contract."""

from wlk_conformance import BackendConformance


class TestHello(BackendConformance):
    """Run every rule that needs no recorded speech."""

    backend = "hello"
