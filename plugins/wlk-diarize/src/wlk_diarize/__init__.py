"""A diarizer by clustering: who speaks when, up to eight speakers, while they speak."""
