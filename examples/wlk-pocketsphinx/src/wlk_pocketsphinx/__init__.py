"""PocketSphinx as a backend of wlk-core: recognise the phrases of a grammar in real time."""
