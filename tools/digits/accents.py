"""English digits, spelled so that voices of other languages speak them with an accent.

A synthesiser that reads the sounds of an English word in another language's spelling keeps that
language's sounds, rhythm and melody. Two dozen English voices hardly vary in what foreigners do to
`zero` or `three`; with accents a recogniser does far better on an unknown speaker.
"""

from __future__ import annotations

#: Voices of espeak-ng, and how the language of each would spell zero to nine.
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

#: Second spellings of the same words.
OTHER_SPELLINGS = {
    "de": "sihro uann tu sri foa faiv six seven ejt nein",
    "es": "zirou güan tu zri for faif six sevn éit náin",
    "fr": "zérau ouane tou zri fore faillve siksse sèveune eight naïn",
    "it": "siro uon tu sri fo faiv siks sevn eit nain",
    "cs": "sírou van tů srí fór fajf siks sevn ejt najn",
    "fi": "sirou van tuu trii foo faiv siks sevn eit nain",
    "ru": "зиро ван ту зри фор файв сикс сэвэн эйт найн",
}

#: Festival's voices, each made from recordings of one person, and the language that it reads.
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

#: SVOX Pico's voices, each of one person, and the language that it reads.
PICO_LANGUAGES = {
    "en-US": "en",
    "en-GB": "en",
    "de-DE": "de",
    "es-ES": "es",
    "fr-FR": "fr",
    "it-IT": "it",
}
