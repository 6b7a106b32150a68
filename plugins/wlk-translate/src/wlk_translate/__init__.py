"""Translators of committed text: OPUS-MT on CTranslate2, and chat models at an endpoint."""
