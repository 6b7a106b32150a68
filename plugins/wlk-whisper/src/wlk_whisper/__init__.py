"""Whisper backends for wlk-core on CTranslate2, torch, MLX and an OpenAI-compatible endpoint."""
