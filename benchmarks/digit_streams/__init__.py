"""What the benchmarks of Whisper share: the material, a measured row, and growth over a stream."""
