"""Samples to measure on: LibriSpeech, any manifest, and the project's own digits."""

from __future__ import annotations

from wlk_bench.data.dataset import Dataset, Mode, Sample, chaptered, load_dataset

__all__ = ["Dataset", "Mode", "Sample", "chaptered", "load_dataset"]
