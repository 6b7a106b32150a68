"""The backend protocol, and the spec with which a plugin declares a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import attrs

from wlk_core.errors import OptionError
from wlk_core.languages import find_language
from wlk_core.options import ModelSpec, Option, OptionValues, as_tuple, resolve_options
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_core.processor import OnlineProcessor

# A recording is decoded in the longest windows, because its first word need not come soon.
#: The policy for recordings; the others are for live audio.
LONG_FORM = "long-form"
LONG_FORM_DELAY = 31.0  # seconds: a window of 28 s and the chunk that overfills it

Capability = Literal[
    "hypothesis",
    "word-times",
    "probabilities",
    "language-detection",
    "language-forcing",
    "translation",
    "speaker-turns",
    "batching",
    "bounded-state",
]


class Backend(Protocol):
    """
    A loaded model that any number of streams share.

    It stores no stream state.  Use it as a context manager, or call `close()`.
    `wlk_core.plugins.LoadedBackend` implements all of this for an engine; `transcribe`, `stream`
    and `astream` of wlk_live take any backend.
    """

    @property
    def spec(self) -> BackendSpec:
        """The declaration of the backend."""
        ...

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineProcessor:
        """
        Return a new stream.

        `language` is a code that the spec declares, or None to detect it; `task` is "transcribe" or
        "translate"; `options` are the spec's options of scope "stream".

        Raises:
            OptionError: the language, the task or an option is unknown or unsupported.
            StreamClosed: the backend is closed.

        """
        ...

    def warmup(self) -> None:
        """Run the model once so that the first stream does not pay for it; leaves no state."""
        ...

    def close(self) -> None:
        """Release the model; new processors are refused from then on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...


@attrs.frozen(kw_only=True)
class BackendSpec(ModelSpec):
    """A backend as its plugin declares it."""

    kind: Literal["backend"] = "backend"

    #: What its streams can do; see Capability.
    capabilities: frozenset[Capability] = attrs.field(default=frozenset(), converter=as_tuple)
    #: The values of the stream option `policy`, the default first.
    policies: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    #: The maximum delay in seconds until audio is committed or visible in the hypothesis, with the
    #: policies for live audio; see `delay_of`.
    max_delay: float | None = None
    #: The models that recognise spoken English digits; wlk-conformance checks their text against
    #: what was spoken.
    digit_models: tuple[str, ...] = attrs.field(default=("digits",), converter=as_tuple)
    #: Declared quality of these models on the suite's digits, by measure: "wer",
    #: "word_start_median", "word_start_bias" (seconds), and "invented_words" in 90 s of audio
    #: without speech.
    bounds: Mapping[str, float] = attrs.field(factory=dict)
    #: "same-thread" if all calls of a stream must come from one thread.
    thread_affinity: Literal["any", "same-thread"] = "any"
    #: How many concurrent engine calls are useful, at least 1; None for one per CPU core.  A
    #: server has that many threads.  With the capability `batching`: the largest useful batch.
    max_concurrent_calls: int | None = None
    #: The ids of the contract's rules that this backend breaks, each with the reason.
    deviations: Mapping[str, str] = attrs.field(factory=dict)
    #: The installed backend with the highest preference is the default.  None for a backend that is
    #: used only when it is named, because sending audio away must never be a fallback.
    preference: int | None = 0

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        object.__setattr__(self, "capabilities", frozenset(self.capabilities))
        names = [option.name for option in self.options]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"BackendSpec {self.name!r}: it declares option {repeated[0]} twice")
        if "batching" in self.capabilities and self.thread_affinity == "same-thread":
            raise ValueError(
                f"BackendSpec {self.name!r}: batching runs the calls of several streams in the "
                'thread of one of them; expected thread_affinity "any", got "same-thread"'
            )
        for option in self.options:
            if unknown := sorted(set(option.policies) - set(self.policies)):
                raise ValueError(
                    f"option {option.name} is for the policies {', '.join(unknown)}, which "
                    f"{self.name} does not declare; expected some of: "
                    f"{', '.join(self.policies) or 'none'}"
                )

    def backend_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option of scope "backend", defaults filled in; OptionError for others."""
        return resolve_options(self.options, values, scope="backend", owner=self.name)

    def stream_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option of scope "stream", with "policy"; otherwise as `backend_options`."""
        return resolve_options(self.all_options, values, scope="stream", owner=self.name)

    def split_options(self, values: Mapping[str, Any]) -> OptionValues:
        """
        Split *values* by scope, checked and converted; no defaults are added.

        Raises OptionError for an unknown option, a value that it does not take, or an option of a
        policy other than the one that *values* or the spec choose.
        """
        # Unknown names go to `stream_options`, whose error lists the options of both scopes.
        names = {option.name for option in self.options if option.scope == "backend"}
        backend = {name: value for name, value in values.items() if name in names}
        stream = {name: value for name, value in values.items() if name not in names}
        resolved = self.backend_options(backend) | self.stream_options(stream)
        return OptionValues(
            {name: resolved[name] for name in backend}, {name: resolved[name] for name in stream}
        )

    def recording_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the stream options *values* of a recording, with the policy LONG_FORM if possible.

        It is possible if the backend declares that policy, and *values* contain neither a policy
        nor an option that LONG_FORM does not take.
        """
        live_only = {o.name for o in self.options if o.policies and LONG_FORM not in o.policies}
        if LONG_FORM not in self.policies or "policy" in values or live_only & values.keys():
            return dict(values)
        return {**values, "policy": LONG_FORM}

    def delay_of(self, policy: str | None) -> float | None:
        """Return the maximum delay of *policy* (None: the default policy), or None if unknown."""
        return LONG_FORM_DELAY if policy == LONG_FORM else self.max_delay

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The declared options, including `policy`."""
        if not self.policies or any(option.name == "policy" for option in self.options):
            return self.options
        policy = Option(
            name="policy",
            type=str,
            default=self.policies[0],
            choices=self.policies,
            help="rule that decides which text is final",
            scope="stream",
        )
        return (policy, *self.options)

    def check_language(self, language: str | None) -> None:
        """Raise OptionError unless *language* is None, the only one declared, or can be forced."""
        if language is None or self.languages == (language,):
            return
        if "language-forcing" not in self.capabilities:
            reason = (
                f"{self.name} recognises {self.languages[0]} only"
                if len(self.languages) == 1
                else f"{self.name} detects the language by itself and cannot be forced to one"
            )
            raise OptionError(f"{reason}; got {shown(language)}, leave it out")
        if language not in self.languages:
            guess = find_language(str(language), self.languages, likeness=0.85)
            hint = f" (did you mean {guess}?)" if guess in self.languages else ""
            raise OptionError(
                f"{self.name} does not support the language {shown(language)}{hint}; "
                f"expected one of: {', '.join(self.languages)}"
            )

    def check_task(self, task: str) -> None:
        """Raise OptionError unless *task* is one this backend can do."""
        tasks = ["transcribe", *(["translate"] if "translation" in self.capabilities else [])]
        if task not in tasks:
            raise OptionError(
                f"{self.name} cannot do the task {shown(task)}; expected one of: {', '.join(tasks)}"
            )
