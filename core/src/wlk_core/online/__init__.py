"""Online processors: a stream around a recognizer."""
