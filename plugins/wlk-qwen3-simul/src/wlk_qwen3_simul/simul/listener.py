"""The AlignAtt engine call over kept state: what is new in the audio, behind what is committed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from wlk_core import Attended, BackendError, Work
from wlk_qwen3_simul.audio.encoding import IncrementalEncoder
from wlk_qwen3_simul.audio.frames import RATE
from wlk_qwen3_simul.simul.budget import token_budget
from wlk_qwen3_simul.simul.said import said_of
from wlk_qwen3_simul.simul.speak import speak
from wlk_qwen3_simul.simul.telling import draft_of, forced_text, told_words
from wlk_qwen3_simul.text.header import MOST_TOKENS, read_header
from wlk_qwen3_simul.text.prompt import PromptBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core import AttendedWord
    from wlk_qwen3_simul.audio.encoding import Heard
    from wlk_qwen3_simul.simul.engine import Engine, StreamSettings
    from wlk_qwen3_simul.simul.network import Encoded, Part
    from wlk_qwen3_simul.simul.said import Row
    from wlk_qwen3_simul.simul.speak import Spoken

__all__ = ["Listener"]


class Listener:
    """
    One stream's ear and memory: an AttentionDecoder that keeps state.  Both are the core's.

    Kept are the raw frames and embeddings of closed windows, and the keys and values of the prompt
    and these windows.  A call runs the open window, what stands behind the audio, the committed
    text and the draft - what the last call said behind it - through the decoder, and nothing else.
    What it says is what a call without any state would.
    """

    def __init__(self, engine: Engine, settings: StreamSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._prompt = PromptBuilder.of(engine.vocabulary, settings.hotwords)
        self.forget()

    @property
    def nbytes(self) -> int:
        """Bytes of frames, embeddings, keys and values held."""
        return self._encoder.nbytes + self._memory.nbytes

    def forget(self) -> None:
        """Let go of the run."""
        self._encoder = IncrementalEncoder(self._engine.network)
        self._call = 0  # of the run; a token knows which call it is from
        self._said: tuple[int, ...] = ()  # by the last call: the text behind what was forced
        self._introduced: tuple[int, ...] = ()  # by the last call, where it had to detect it
        self._header: tuple[int, ...] = ()  # in front of the text of the last call
        self._lose_memory()

    def _lose_memory(self) -> None:
        self._memory = self._engine.network.open()
        self._held: tuple[Encoded, ...] = ()  # windows whose keys and values it holds
        self._is_torn = False

    def __call__(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        context: tuple[AttendedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> Attended:
        """Return what is said in *audio* behind the words of *context*; see AttentionDecoder."""
        heard = self._encoder.hear(audio, first_sample=first_sample)
        work = Work(encoder_frames=heard.frames)
        if heard.tokens == 0:
            return Attended(language=language, work=work)
        text = forced_text(context, self._engine.vocabulary)
        # A language that has no code is introduced by the words that introduced it before.
        header = self._header if language is None and context else self._prompt.header(language)
        draft = draft_of(context, self._said, self._engine.vocabulary, call=self._call)
        room = self._room(len(audio), context, language)
        if not header:
            draft, room = (*self._introduced, *draft), room + MOST_TOKENS
        spoken = self._speak(
            heard,
            forced=(*self._prompt.after, *header, *text),
            draft=draft,
            room=room,
            halt=None if is_last else partial(self._is_astray, is_introduced=bool(header)),
        )
        begun = 0
        if not header:
            found = read_header(spoken.ids, self._engine.vocabulary)
            # A text that ends at once says that nothing was heard; one that goes on and on without
            # a header would be silence for ever.
            if found is None and (spoken.loop or len(spoken.ids) >= MOST_TOKENS):
                raise BackendError(
                    f"the model said {len(spoken.ids)} tokens and no language in front of its "
                    "text, as Qwen3-ASR does where it has to detect it; give the language",
                    retryable=False,
                )
            begun = len(spoken.ids) if found is None else found.tokens
            language = None if found is None else found.language
        words = told_words(
            spoken.behind(begun),
            self._engine,
            audio,
            call=self._call + 1,
            floor=context[-1].word.end if context else 0.0,
            before=None if context else prompt,
            is_last=is_last,
        )
        # From here on nothing fails: what is remembered is what is returned.
        self._call += 1
        self._header, self._introduced = header or spoken.ids[:begun], spoken.ids[:begun]
        self._said = spoken.ids[begun:]
        work += attrs.evolve(spoken.work, detokenised_ids=len(spoken.ids))
        return Attended(words=words, language=language, work=work)

    def _speak(
        self,
        heard: Heard,
        *,
        forced: Sequence[int],
        draft: Sequence[int],
        room: int,
        halt: Callable[[Sequence[int], Sequence[Row]], bool] | None,
    ) -> Spoken:
        """Run what the memory does not hold, and the text behind it."""
        if self._is_torn:
            self._lose_memory()
        before, memory = self._prompt.before, self._memory
        same = 0
        for one, other in zip(self._held, heard.closed, strict=False):
            if one is not other:
                break
            same += 1
        # Whatever fails from here on leaves a memory that nobody can tell the contents of.
        self._is_torn = True
        parts: list[Part] = list(heard.windows[same:])
        if memory.length:
            memory.keep(len(before) + sum(one.tokens for one in heard.closed[:same]))
        else:
            parts.insert(0, before)
        self._held = heard.closed
        spoken = speak(
            self._engine.network,
            memory,
            parts,
            forced=forced,
            draft=draft,
            room=room,
            ends=self._engine.vocabulary.ends,
            audio=(len(before), len(before) + heard.tokens),
            halt=halt,
        )
        self._is_torn = False
        return spoken

    def _room(self, samples: int, context: tuple[AttendedWord, ...], language: str | None) -> int:
        """Return how many tokens may be said behind the committed ones."""
        end = context[-1].word.end if context else 0.0
        unsaid = samples - min(samples, max(0, round(end * RATE)))
        return token_budget(unsaid, language, most=self._settings.max_new_tokens)

    def _is_astray(self, ids: Sequence[int], rows: Sequence[Row], *, is_introduced: bool) -> bool:
        """Tell whether the newest token was heard too far back: no word from there on is final."""
        rewind = self._settings.rewind_frames
        if rewind is None:
            return False
        begun = 0
        if not is_introduced:
            found = read_header(ids, self._engine.vocabulary)
            begun = len(ids) if found is None else found.tokens
        said = said_of(ids[begun:], rows[begun:], by_self=self._engine.by_self)
        return bool(said) and said[-1].frame < max(one.frame for one in said) - rewind
