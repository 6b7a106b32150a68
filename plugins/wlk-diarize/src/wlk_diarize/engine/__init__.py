"""Who speaks when, from networks whose answers are put together along the stream."""
