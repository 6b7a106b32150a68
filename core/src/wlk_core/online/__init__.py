"""Online processors put together from parts: a stream around a recognizer."""
