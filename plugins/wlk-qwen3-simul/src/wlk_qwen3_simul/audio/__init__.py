"""What the model is given of the sound: log-mel frames, windows, embeddings."""
