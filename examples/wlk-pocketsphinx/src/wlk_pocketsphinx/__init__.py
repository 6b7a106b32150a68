"""PocketSphinx for wlk-core: what a grammar allows, heard while it is said."""
