"""
The errors that wlk-live adds to those of `wlk_core.errors`.

* WLKError
  x SessionOverloaded     more audio or more sessions than are accepted
  x AudioDeviceError      a microphone that is absent, busy or refused
"""

from __future__ import annotations

from wlk_core.errors import WLKError


class SessionOverloaded(WLKError):  # noqa: N818 -- names the state the session is in
    """No more audio can be queued, or no more sessions are accepted; nothing was changed."""


class AudioDeviceError(WLKError):
    """No audio can be captured: the library or the device is absent, busy or refuses the rate."""
