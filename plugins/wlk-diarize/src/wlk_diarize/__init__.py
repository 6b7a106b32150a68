"""Who speaks when, up to eight speakers, while they speak: by clustering, or by a Sortformer."""
