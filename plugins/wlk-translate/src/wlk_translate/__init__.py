"""Translate committed text with OPUS-MT on CTranslate2, or with a chat model on a server."""
