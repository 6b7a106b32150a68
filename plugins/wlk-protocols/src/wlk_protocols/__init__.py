"""Protocols of other servers, for wlk-serve; each package speaks one of them."""
