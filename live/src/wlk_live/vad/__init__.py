"""Voice activity detection: pass speech on, and measure silence to the sample."""

from __future__ import annotations

from wlk_live.vad.detector import SileroDetector as SileroDetector
from wlk_live.vad.gate import GateEvent as GateEvent
from wlk_live.vad.gate import GateParameters as GateParameters
from wlk_live.vad.gate import SilenceEnded as SilenceEnded
from wlk_live.vad.gate import SilenceGate as SilenceGate
from wlk_live.vad.gate import SilenceStarted as SilenceStarted
from wlk_live.vad.gate import SpeechAudio as SpeechAudio
from wlk_live.vad.gate import silence_gate as silence_gate
