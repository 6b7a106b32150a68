"""Decode greedily over a KV cache, and locate the audio that each token attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_frameworks.decoding_loops import Loop, find_loop
from wlk_qwen3_simul.engine.frames import frame_of_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_qwen3_simul.engine.network import DecoderOutput, EncodedWindow, KVCache, Network

LOOP_TIMES = 12  # repeats that stop decoding; more than real speech has in one buffer
MAX_LOOP_TOKENS = 16  # length of the longest repeated n-gram that is detected
MIN_AUDIO_ATTENTION = 0.02  # share of the heads' attention below which the step has no frame


@attrs.frozen
class DecoderStep:
    """The decoder's output at one position: the likeliest next token, and its logprob."""

    token: int
    logprob: float
    #: The alignment frame of the audio attended to most; None if less than MIN_AUDIO_ATTENTION of
    #: the attention went to the audio.
    frame: int | None


@attrs.frozen
class AlignedToken:
    """A token of the text, and its logprob."""

    id: int
    frame: int  #: the alignment frame at which it is spoken, from the start of the audio
    logprob: float


@attrs.frozen(kw_only=True, eq=False)
class DecodingResult:
    """
    The text of one decoding.

    Attributes:
        ids: the tokens after the forced ones, without the end token; all were fed to the decoder.
        steps: one more than ids: step i predicted token i, and step i + 1 had it as input.
        ended: whether the decoder emitted an end; false if a limit, a loop or *halt* stopped it.
        loop: the repetition that stopped it, as indices into ids.
        work: what the decoding cost.

    """

    ids: tuple[int, ...]
    steps: tuple[DecoderStep, ...]
    ended: bool
    loop: Loop | None
    work: WorkCounters

    def without_first(self, count: int) -> DecodingResult:
        """Return the same result without the first *count* tokens, such as a header."""
        loop = self.loop
        if loop is not None:
            start, end = max(0, loop.start - count), max(0, loop.end - count)
            loop = Loop(start=start, period=loop.period, end=end)
        return attrs.evolve(self, ids=self.ids[count:], steps=self.steps[count:], loop=loop)


def decode(
    network: Network,
    kv_cache: KVCache,
    parts: Sequence[EncodedWindow | Sequence[int]],
    *,
    forced: Sequence[int],
    draft: Sequence[int],
    max_tokens: int,
    ends: frozenset[int],
    audio: tuple[int, int],
    first_token: int = 0,
    halt: Callable[[Sequence[int], Sequence[DecoderStep]], bool] | None = None,
) -> DecodingResult:
    """
    Decode the text after the positions of *kv_cache*, *parts* and *forced*.

    The tokens are those of greedy decoding whatever the draft: only draft tokens that the model
    predicts anyway are kept.  The forward that runs the prompt also verifies the draft.

    Args:
        network: runs the layers.
        kv_cache: holds the earlier positions; afterwards also the parts and the text.
        parts: encoded windows and token ids that the KV cache lacks, in order.
        forced: ids after the parts, at least one.
        draft: a guess at the first tokens of the text.
        max_tokens: the most tokens that the text may have.
        ends: ids that end the text.
        audio: see Network.forward.
        first_token: number of the first audio token in its window; frames count from token 0.
        halt: called after every token with the text so far and its steps; true ends the text.

    """
    draft = draft[:max_tokens]
    before = kv_cache.length
    output = network.forward(
        kv_cache, [*parts, [*forced, *draft]], rows=1 + len(draft), audio=audio
    )
    positions = kv_cache.length - before
    work = WorkCounters(decoder_positions=positions, decoder_forwards=1, host_syncs=1)
    steps = steps_from_output(output, first_token=first_token)
    accepted = _count_accepted(draft, steps, ends=ends, halt=halt)
    kv_cache.truncate(kv_cache.length - (len(draft) - accepted))
    ids, steps = list(draft[:accepted]), steps[: accepted + 1]
    while True:
        token = steps[-1].token
        loop = find_loop(ids, times=LOOP_TIMES, longest=MAX_LOOP_TOKENS)
        ended = token in ends
        if ended or loop or len(ids) >= max_tokens or (ids and halt and halt(ids, steps)):
            return DecodingResult(
                ids=tuple(ids), steps=tuple(steps), ended=ended, loop=loop, work=work
            )
        output = network.forward(kv_cache, [[token]], rows=1, audio=audio)
        steps += steps_from_output(output, first_token=first_token)
        ids.append(token)
        work += WorkCounters(decoder_positions=1, decoder_forwards=1, host_syncs=1)


def choose(
    network: Network,
    kv_cache: KVCache,
    parts: Sequence[EncodedWindow | Sequence[int]],
    choices: Sequence[tuple[int, ...]],
    *,
    audio: tuple[int, int],
) -> tuple[tuple[int, ...], int, WorkCounters]:
    """
    Return one of *choices*, decoded greedily among them after *parts*.

    After it come the number of its ids that the KV cache then holds, and the work.  There must be
    at least two choices, and none may be a prefix of another.
    """
    chosen: tuple[int, ...] = ()
    held, before, work = 0, kv_cache.length, WorkCounters()
    while len(choices) > 1:
        following = sorted({choice[len(chosen)] for choice in choices})
        if len(following) > 1:
            new = [*parts, chosen[held:]] if chosen[held:] else parts
            output = network.forward(kv_cache, new, rows=1, audio=audio, among=following)
            (step,) = steps_from_output(output)
            work += WorkCounters(
                decoder_positions=kv_cache.length - before, decoder_forwards=1, host_syncs=1
            )
            parts, held, before = [], len(chosen), kv_cache.length
            following = [step.token]
        chosen += (following[0],)
        choices = [choice for choice in choices if choice[: len(chosen)] == chosen]
    return choices[0], held, work


def _count_accepted(
    draft: Sequence[int],
    steps: Sequence[DecoderStep],
    *,
    ends: frozenset[int],
    halt: Callable[[Sequence[int], Sequence[DecoderStep]], bool] | None,
) -> int:
    """
    Return how many tokens of *draft* the model predicts anyway before anything ends the text.

    *halt* is called again for every draft token, because with more audio the same tokens attend
    to other frames.
    """
    loop = find_loop(draft, times=LOOP_TIMES, longest=MAX_LOOP_TOKENS)
    most = loop.end if loop else len(draft)
    for count, token in enumerate(draft[:most]):
        if steps[count].token != token or token in ends:
            return count
        if count and halt and halt(draft[:count], steps[: count + 1]):
            return count
    return most


def steps_from_output(output: DecoderOutput, *, first_token: int = 0) -> list[DecoderStep]:
    """
    Return the steps of one forward over the audio tokens from number *first_token* on.

    Raises:
        FloatingPointError: the arithmetic of the model overflowed.

    """
    if not np.isfinite(output.logprobs).all():
        raise FloatingPointError(
            "the decoder emitted logits that are not finite: its arithmetic overflowed; load the "
            "model in float32 or bfloat16"
        )
    return [
        DecoderStep(
            int(token),
            float(logprob),
            frame_of_token(first_token + int(attention.argmax()))
            if mass >= MIN_AUDIO_ATTENTION
            else None,
        )
        for token, logprob, attention, mass in zip(
            output.ids, output.logprobs, output.attention, output.audio_attention_mass, strict=True
        )
    ]


def align_tokens(
    ids: Sequence[int], steps: Sequence[DecoderStep], *, by_self: bool
) -> tuple[AlignedToken, ...]:
    """
    Return the tokens of *ids* with their frames and logprobs.

    `steps[i]` predicted `ids[i]`, and `steps[-1]` is the step whose input was the last token.  The
    frame comes from the step that predicted the token or, with *by_self*, from the step whose
    input was the token.  A token whose step has no frame takes the frame of the token before.
    """
    aligned: list[AlignedToken] = []
    frame = 0
    for index, token in enumerate(ids):
        attending = steps[index + 1] if by_self else steps[index]
        if attending.frame is not None:
            frame = attending.frame
        aligned.append(AlignedToken(token, frame, steps[index].logprob))
    return tuple(aligned)
