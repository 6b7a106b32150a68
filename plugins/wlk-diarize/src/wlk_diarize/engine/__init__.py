"""Who speaks when, from two networks and a clustering that goes on with the stream."""
