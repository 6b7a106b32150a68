"""The command line: thin commands over the rest of wlk_core."""
