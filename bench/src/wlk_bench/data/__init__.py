"""Data sets to measure on: LibriSpeech, manifests, and the project's own digits."""

from __future__ import annotations

from wlk_bench.data.dataset import Dataset, Mode, load_dataset
from wlk_bench.data.sample import Sample, join_chapters

__all__ = ["Dataset", "Mode", "Sample", "join_chapters", "load_dataset"]
