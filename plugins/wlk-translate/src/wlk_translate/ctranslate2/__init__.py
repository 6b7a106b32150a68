"""OPUS-MT on CTranslate2."""
