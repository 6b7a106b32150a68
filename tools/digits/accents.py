"""English digits as speakers of other languages pronounce them.

A synthesiser that reads another language's spelling of how a word sounds speaks with that
language's sounds, rhythm and melody: an accent. Two dozen English voices hardly differ in what a
foreigner does to `zero` or `three`; with these a recogniser does far better on an unknown speaker.
"""

from __future__ import annotations

#: The voice of espeak-ng, and how its language would spell zero to nine.
ACCENTS = {
    "de": "siero wann tuh sri for faif sicks sewen äit nain",
    "es": "siro uan tu tri for faif sics seven eit nain",
    "it": "ziro uan tu tri for faiv sics seven eit nain",
    "fr": "ziro ouanne tou sri fore faïve sixe sévenne eïte naïne",
    "pl": "ziro łan tu tri for fajf siks sewen ejt najn",
    "pt": "ziro uân tu tri fór faiv sics séven éit náin",
    "nl": "ziero wan toe trie foor faif siks seven eet nain",
    "sv": "siro uan to tri får fajv sicks seven ejt najn",
    "ru": "зиро уан ту сри фор файв сикс севен эйт найн",
    "el": "ζίρο ουάν του θρι φορ φάιβ σιξ σέβεν έιτ νάιν",
    "tr": "ziro van tu tri for fayv siks sevın eyt nayn",  # noqa: RUF001 - a letter of Turkish
    "cs": "zíro uan tú trí fór fajv siks sevn ejt najn",
    "ro": "ziro uan tu tri for faiv sics seven eit nain",
    "hu": "zíró uan tú trí for fájv sziksz szeven éjt nájn",
    "fi": "siirou uan tuu srii foor faiv siks seven eit nain",
    "hr": "ziro van tu tri for fajv siks seven ejt najn",
    "hi": "ज़ीरो वन टू थ्री फ़ोर फ़ाइव सिक्स सेवन एट नाइन",
    "id": "ziro wan tu tri for faif siks seven eit nain",
    "ca": "sirou uan tu tri for faif sics seven eit nain",
}

#: Other hearings of the same words.
OTHER_SPELLINGS = {
    "de": "sihro uann tu sri foa faiv six seven ejt nein",
    "es": "zirou güan tu zri for faif six sevn éit náin",
    "fr": "zérau ouane tou zri fore faillve siksse sèveune eight naïn",
    "it": "siro uon tu sri fo faiv siks sevn eit nain",
    "cs": "sírou van tů srí fór fajf siks sevn ejt najn",
    "fi": "sirou van tuu trii foo faiv siks sevn eit nain",
    "ru": "зиро ван ту зри фор файв сикс сэвэн эйт найн",
}

#: Voices of festival, cut from recordings of as many people, and the language each of them reads.
FESTIVAL_LANGUAGES = {
    "kal_diphone": "en",
    "ked_diphone": "en",
    "cmu_us_slt_arctic_hts": "en",
    "lp_diphone": "it",
    "pc_diphone": "it",
    "czech_dita": "cs",
    "czech_krb": "cs",
    "czech_machac": "cs",
    "czech_ph": "cs",
    "hy_fi_mv_diphone": "fi",
    "suo_fi_lj_diphone": "fi",
    "upc_ca_ona_hts": "ca",
    "msu_ru_nsh_clunits": "ru",
}

#: The voices of SVOX Pico, a person each, and the language they read.
PICO_LANGUAGES = {
    "en-US": "en",
    "en-GB": "en",
    "de-DE": "de",
    "es-ES": "es",
    "fr-FR": "fr",
    "it-IT": "it",
}
