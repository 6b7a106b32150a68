"""How large the JSON files of models, of records and of hubs may be."""

from __future__ import annotations

from wlk_core.untrusted import JSONLimits

__all__ = ["LISTING_LIMITS", "SETTINGS_LIMITS", "VOCABULARY_LIMITS"]

_DEPTH = 64  # published files nest 8 levels
_DIGITS = 400  # of a number; writers without exponents print the smallest float64 in 326

#: Of config.json and all other files that are no vocabulary.  The largest published ones are a
#: preprocessor_config.json of 340 KB with 16,080 numbers and a tokenizer_config.json of 283 KB.
SETTINGS_LIMITS = JSONLimits(
    max_bytes=2**20, max_values=100_000, max_depth=_DEPTH, max_digits=_DIGITS
)
#: Of tokenizers, vocabularies and indices of shards: a tekken.json has 20 MB, and a tokenizer.json
#: of 152,000 tokens 0.6 million values.
VOCABULARY_LIMITS = JSONLimits(
    max_bytes=32 * 2**20, max_values=1_000_000, max_depth=_DEPTH, max_digits=_DIGITS
)
#: Of lists of files; 16 MiB describe 50,000.  They have no reader but this program.
LISTING_LIMITS = JSONLimits(
    max_bytes=16 * 2**20,
    max_values=1_000_000,
    max_depth=_DEPTH,
    max_digits=_DIGITS,
    is_strict=False,
)
