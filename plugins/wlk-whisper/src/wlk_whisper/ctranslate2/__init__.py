"""Whisper on CTranslate2, through faster-whisper."""
