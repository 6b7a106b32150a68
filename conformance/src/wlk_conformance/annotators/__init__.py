"""The contract of annotators: diarizers, translators and turn detectors."""

from __future__ import annotations

from wlk_conformance.annotators.diarizers import DiarizerConformance
from wlk_conformance.annotators.translators import TranslatorConformance
from wlk_conformance.annotators.turn_detectors import TurnDetectorConformance

__all__ = ["DiarizerConformance", "TranslatorConformance", "TurnDetectorConformance"]
