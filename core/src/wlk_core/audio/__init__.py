"""Audio as this project takes it: mono float32 at 16 kHz, from any file or sample type."""
