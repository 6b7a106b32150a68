"""The protocol keeps the rules that every protocol keeps."""

from __future__ import annotations

import pytest

from wlk_conformance.protocols import RULES

from .client import CLIENTS


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_kept(rule, client):
    """PRO rules: docs/protocols.md."""
    assert None is RULES[rule][1](client)
