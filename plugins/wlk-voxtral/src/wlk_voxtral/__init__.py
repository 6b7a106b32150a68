"""Everything that both plugins for Voxtral Realtime share, independent of the framework."""
