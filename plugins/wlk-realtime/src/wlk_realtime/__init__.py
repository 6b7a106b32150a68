"""Use a realtime server as a backend of wlk-core."""
