"""What outsiders send, as data: JSON within limits, hosts, and text that a message may quote."""

from __future__ import annotations

from wlk_core.untrusted.hosts import is_loopback
from wlk_core.untrusted.limited_json import JSONLimitError, JSONLimits, parse_limited_json
from wlk_core.untrusted.messages import MASK, mask_secrets, one_line, without_secrets

__all__ = [
    "MASK",
    "JSONLimitError",
    "JSONLimits",
    "is_loopback",
    "mask_secrets",
    "one_line",
    "parse_limited_json",
    "without_secrets",
]
