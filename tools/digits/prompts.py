"""Collect digits read by two more people, from free prompts of a telephone system and a captcha.

Allison Smith's prompts of Asterisk (CC BY-SA 3.0) come with Debian's asterisk-core-sounds-en-wav,
the other voice with the Python package captcha (BSD). Both become `{digit}_{speaker}_{take}.wav`.

python tools/digits/prompts.py --output DIR
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from recordings import HELD_OUT_TAKES
from scipy.io import wavfile

if TYPE_CHECKING:
    from collections.abc import Iterator

ASTERISK = Path("/usr/share/asterisk/sounds/en_US_f_Allison")


def collect(asterisk: Path, captcha: Path, output: Path) -> Iterator[Path]:
    """Write the ten digits of both as 16-bit files and yield their names.

    Args:
        asterisk: folder whose `digits/3.wav` is a three.
        captcha: folder whose `3/default.wav` is a three.
        output: folder to write to.

    Raises:
        FileNotFoundError: a prompt is missing.
    """
    output.mkdir(parents=True, exist_ok=True)
    for digit in range(10):
        sources = {
            "allison": asterisk / "digits" / f"{digit}.wav",
            "captcha": captcha / str(digit) / "default.wav",
        }
        for speaker, source in sources.items():
            rate, samples = wavfile.read(source)
            if samples.dtype == "uint8":
                samples = (samples.astype("int16") - 128) * 256
            written = output / f"{digit}_{speaker}_{HELD_OUT_TAKES}.wav"
            wavfile.write(written, rate, samples)
            yield written


def main() -> None:
    """Collect the prompts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--asterisk", type=Path, default=ASTERISK)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    package = find_spec("captcha")
    if package is None or package.origin is None:
        raise SystemExit("expected the package captcha; pip install captcha")
    captcha = Path(package.origin).parent / "data"
    written = list(collect(arguments.asterisk, captcha, arguments.output))
    print(f"{len(written)} files in {arguments.output}")


if __name__ == "__main__":
    main()
