"""Finding alignment heads: clips with known word times in, scores of all heads out."""
