"""PocketSphinx for wlk-core: it recognises what a grammar allows, as it is spoken."""
