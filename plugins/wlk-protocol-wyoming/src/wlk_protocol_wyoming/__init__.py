"""Home Assistant and other clients of Wyoming at wlk-serve."""
