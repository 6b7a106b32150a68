"""Building blocks of online processors: pure functions and state on numpy, without I/O."""

from __future__ import annotations

from wlk_core.streaming.audio_buffer import AudioBuffer as AudioBuffer
from wlk_core.streaming.words import AlignedWord as AlignedWord
from wlk_core.streaming.words import Word as Word
from wlk_core.streaming.words import is_unspaced as is_unspaced
from wlk_core.streaming.words import joined as joined
from wlk_core.streaming.words import needs_space as needs_space
