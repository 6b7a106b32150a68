"""The command line: thin commands over what the rest of wlk_core offers."""
