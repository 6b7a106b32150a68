"""The audio of a stream, described so that a file can contain it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from wlk_conformance.stimuli import CodedSpeech, SpeechSource, Stimulus, white_noise
from wlk_conformance.testing import CodedToken

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Tape", "Token"]

Token = tuple[int, int, int]  # id, first cell and cells


def _tokens(values: Iterable[Iterable[int]]) -> tuple[Token, ...]:
    return tuple((id_, cell, cells) for id_, cell, cells in values)


def _pair(values: Iterable[float]) -> tuple[float, float]:
    low, high = values
    return low, high


@attrs.frozen(kw_only=True)
class Tape:
    """
    Audio that a stream is fed from its beginning on; zeros follow its end.

    Attributes:
        kind: "coded" for the tokens listed, "speech" for digits spoken, "noise" for neither.
        tokens: id, first cell and cells of each coded token.
        count: how many digits are spoken.
        gap: the range of the pauses between them in seconds.
        seed: of the digits or of the noise.
        seconds: of noise.
        first_sample: where the audio begins, of what is spoken or of the noise.

    """

    kind: Literal["coded", "speech", "noise"] = "coded"
    tokens: tuple[Token, ...] = attrs.field(default=(), converter=_tokens)
    count: int = 0
    gap: tuple[float, float] = attrs.field(default=(0.1, 0.3), converter=_pair)
    seed: int = 0
    seconds: float = 0.0
    first_sample: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        fields = attrs.fields(Tape)
        values = {field.name: getattr(self, field.name) for field in fields}
        defaults = {field.name: field.default for field in fields}
        return {
            name: value
            for name, value in values.items()
            if name == "kind" or value != defaults[name]
        }

    def render(self, source: SpeechSource) -> Stimulus:
        """Return the audio; *source* speaks the digits."""
        stimulus = self._whole(source)
        if not self.first_sample:
            return stimulus
        return attrs.evolve(stimulus, audio=stimulus.audio[self.first_sample :], words=())

    def _whole(self, source: SpeechSource) -> Stimulus:
        if self.kind == "noise":
            return white_noise(self.seconds, seed=self.seed)
        if self.kind == "coded" and isinstance(source, CodedSpeech):
            return source.script([CodedToken(*token) for token in self.tokens], cells=self.cells)
        count = self.count or len(self.tokens)
        return source.speech(count, seed=self.seed, gap=self.gap)

    @property
    def cells(self) -> int:
        """The end of the last coded token, in cells of 80 ms."""
        return max((cell + cells for _, cell, cells in self.tokens), default=0)
