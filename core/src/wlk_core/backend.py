"""A backend: what a plugin declares about it, and what a loaded one can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import attrs

from wlk_core.errors import OptionError
from wlk_core.languages import find_language
from wlk_core.options import Option, OptionValues, PluginSpec, as_tuple, resolve_options
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_core.processor import OnlineProcessor

# A file is not a stream: nobody waits for its first word, so it is decoded in the longest windows.
#: The policy for recordings, of which all audio is there; the other policies are for live audio.
LONG_FORM = "long-form"
LONG_FORM_DELAY = 31.0  # seconds: a window of 28 s, and the chunk that shows it to be full

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

    Nothing of a stream is ever stored on it.  Use it as a context manager, or call `close()`.
    `wlk_core.session` has `transcribe`, `stream` and their asynchronous twins for any backend, and
    `wlk_core.plugins.LoadedBackend`, which has all of this for an engine, has them as methods.
    """

    @property
    def spec(self) -> BackendSpec:
        """The declaration that the backend was loaded by."""
        ...

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineProcessor:
        """
        Return a new stream.

        `language` is None to detect it or a code the spec declares; `task` is "transcribe" or
        "translate"; `options` are the spec's options of scope "stream".

        Raises:
            OptionError: the language, the task or an option is unknown or unsupported.
            StreamClosed: the backend is closed.

        """
        ...

    def warmup(self) -> None:
        """Run the model once so that the first stream does not pay for it; leaves no trace."""
        ...

    def close(self) -> None:
        """Release the model; new processors are refused from here on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...


@attrs.frozen(kw_only=True)
class BackendSpec(PluginSpec):
    """A backend as its plugin declares it."""

    kind: ClassVar = "backend"

    #: What the streams can do, see Capability.
    capabilities: frozenset[Capability] = attrs.field(default=frozenset(), converter=as_tuple)
    #: The values of the stream option `policy`, the default first.
    policies: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    #: Seconds after which audio is committed or visible in the hypothesis, with the policies for
    #: live audio; see `delay_of`.
    max_delay: float | None = None
    #: The models that recognise spoken English digits, which wlk-conformance then compares with
    #: what was spoken.
    digit_models: tuple[str, ...] = attrs.field(default=("digits",), converter=as_tuple)
    #: Declared quality of these models on the suite's digits, by measure: "wer",
    #: "word_start_median", "word_start_bias" (seconds), and "invented_words" in 90 s of audio
    #: without speech.
    bounds: Mapping[str, float] = attrs.field(factory=dict)
    #: "same-thread" where one stream's calls must share a thread.
    thread_affinity: Literal["any", "same-thread"] = "any"
    #: The useful concurrency of engine calls, at least 1; None for one a CPU core.  A `Scheduler`
    #: has that many threads.  With the capability `batching` it is the number of calls that are
    #: worth taking together.
    max_concurrent_calls: int | None = None
    #: Ids of rules of the contract that this backend breaks, each with its reason.
    deviations: Mapping[str, str] = attrs.field(factory=dict)
    #: Which installed backend is the default: the highest on this platform.  None for a backend
    #: that is used only when it is named: sending audio away must never be a fallback.
    preference: int | None = 0

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        object.__setattr__(self, "capabilities", frozenset(self.capabilities))
        names = [option.name for option in self.options]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"BackendSpec {self.name!r}: it declares option {doubled[0]} twice")
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
        """Return every option of scope "backend", defaults filled in; OptionError on others."""
        return resolve_options(self.options, values, scope="backend", owner=self.name)

    def stream_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option of scope "stream", and "policy"; otherwise as `backend_options`."""
        return resolve_options(self.all_options, values, scope="stream", owner=self.name)

    def split_options(self, values: Mapping[str, Any]) -> OptionValues:
        """
        Return *values* of options of both scopes by scope, converted and checked.

        Only the options in *values* are returned; their policy is the one that *values* or the
        spec chooses.  Raises OptionError where one is unknown or does not take its value.
        """
        # An unknown name counts as one of a stream: the error is about options of both scopes.
        names = {option.name for option in self.options if option.scope == "backend"}
        backend = {name: value for name, value in values.items() if name in names}
        stream = {name: value for name, value in values.items() if name not in names}
        resolved = self.backend_options(backend) | self.stream_options(stream)
        return OptionValues(
            {name: resolved[name] for name in backend}, {name: resolved[name] for name in stream}
        )

    def recording_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return stream options for a recording: *values*, and the policy LONG_FORM where it fits.

        It is taken where the backend declares it and *values* name neither a policy nor an option
        that it does not take.
        """
        live = {o.name for o in self.options if o.policies and LONG_FORM not in o.policies}
        if LONG_FORM not in self.policies or "policy" in values or live & values.keys():
            return dict(values)
        return {**values, "policy": LONG_FORM}

    def delay_of(self, policy: str | None) -> float | None:
        """Return the `max_delay` of *policy*, where None is the default; None if it is unknown."""
        return LONG_FORM_DELAY if policy == LONG_FORM else self.max_delay

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The declared options, `policy` among them."""
        if not self.policies or any(option.name == "policy" for option in self.options):
            return self.options
        policy = Option(
            name="policy",
            type=str,
            default=self.policies[0],
            choices=self.policies,
            help="how text is decided to be final",
            scope="stream",
        )
        return (policy, *self.options)

    def check_language(self, language: str | None) -> None:
        """Raise OptionError unless *language* is None, the only declared one, or one to force."""
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
            guess = find_language(str(language), self.languages, likeness=0.8)
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
