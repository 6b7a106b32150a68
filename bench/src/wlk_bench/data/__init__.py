"""Data sets to measure on: LibriSpeech, manifests, and the project's own digits."""

from __future__ import annotations

from wlk_bench.data.dataset import Dataset, Mode, load_dataset
from wlk_bench.data.sample import Sample, chaptered

__all__ = ["Dataset", "Mode", "Sample", "chaptered", "load_dataset"]
