"""Faults of plugins and of what they declare: PKG."""

from __future__ import annotations

from contextlib import suppress
import math
import socket

from faulty_backends.base import (
    FaultyBackend,
    FaultyStream,
    alone,
    by_tests,
    each,
    edit,
    in_sessions,
)
from faulty_backends.plugins import FRAMED
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.scripted.backend import load
from wlk_core.errors import ModelNotFoundError
from wlk_core.options import Option
from wlk_core.standard_options import PROMPT, device

DRAFTS = Option(name="drafts", scope="stream", type=bool, default=False, help="draft words")
THREADS = Option(name="threads", scope="backend", type=int, default=1, minimum=1, help="threads")

FEW = frozenset({"hypothesis", "word-times", "speaker-turns"})

# Sound streams, whose declaration or plugin has the fault.
for listed, rule, name, sentence, how in (
    (alone, "PKG-01", "DeclaresUnknownApi",
     "Declares a plugin API that this core does not support.", {"spec": {"api": 99}}),
    (alone, "PKG-01", "DeclaresUnknownDeviation",
     "Declares a deviation from a rule that does not exist.",
     {"spec": {"deviations": {"SIL-99": "no such rule"}}}),
    (alone, "PKG-01", "ReturnsUndeclaredProbabilities",
     "Returns probabilities that its spec does not declare.", {"spec": {"capabilities": FEW}}),
    (alone, "PKG-02", "ImportsNumpy", "Its plugin module imports numpy.",
     {"entry_point": "faulty_backends.plugin_with_heavy_import"}),
    (by_tests, "PKG-02", "ImportsNumpyInItsHook",
     "Imports numpy when it is asked for its backends, and not before.",
     {"entry_point": "faulty_backends.plugins:HeavyHook"}),
    (by_tests, "PKG-02", "ImportsModuleThatImportsNumpy",
     "Imports a module of its own that imports numpy.",
     {"entry_point": "faulty_backends.plugin_with_heavy_helper"}),
    (alone, "PKG-05", "HidesMissingFramework",
     "Raises a RuntimeError where its framework is missing.",
     {"spec": FRAMED, "entry_point": "faulty_backends.plugins:Framed"}),
    (by_tests, "PKG-05", "CannotBeListedWithoutFramework",
     "Imports its framework with its plugin module, so that it is not listed without it.",
     {"spec": FRAMED, "entry_point": "faulty_backends.plugin_with_framework_at_import"}),
    (by_tests, "PKG-05", "NamesNoFrameworkCommand",
     "Raises BackendUnavailable without its framework, and names no command that installs it.",
     {"spec": FRAMED, "entry_point": "faulty_backends.plugins:WithoutCommand"}),
):  # fmt: skip
    listed(rule, **how)(type(name, (FaultyStream,), {"__doc__": sentence}))


@in_sessions("PKG-01")
def probability_above_one(stream, emission, call):
    """Returns a probability above 1 for a word of more than 0.9 s."""
    return each(emission, lambda t: edit(t, probability=max(1.0, (t.end - t.start) / 0.9)))


@alone("PKG-03", on="load")
def raises_key_error_for_unknown_model(model):
    """Raises the KeyError of its model table."""
    return {None: ScriptedBackend, "digits": ScriptedBackend}[model]()


@alone("PKG-03", on="load")
def connects_for_local_path(model):
    """Connects to the network for a model that is a local path."""
    if model == "digits":
        return ScriptedBackend()
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=0.01).close()
    except OSError as error:
        raise ModelNotFoundError(f"no model {model}; try wlk-core pull {model}") from error
    raise ModelNotFoundError(f"no model {model}; try wlk-core pull {model}")


@by_tests("PKG-03", on="load")
def names_no_command(model):
    """Raises ModelNotFoundError for an unknown model, and names no command that helps."""
    if model != "digits":
        raise ModelNotFoundError(f"no model {model}")
    return ScriptedBackend()


@by_tests("PKG-03", on="load")
def loads_the_last_part_of_a_path(model):
    """Loads the model named by the last part of a path that does not exist."""
    return load(SCRIPTED_SPEC, model.split("/")[-1])


@alone("PKG-04", on="taken")
def drops_options(backend, arguments):
    """Accepts any option of a stream and ignores it."""
    return {name: arguments[name] for name in ("language", "task") if name in arguments}


@alone("PKG-04", on="taken")
def ignores_unknown_language(backend, arguments):
    """Ignores a language that it does not support."""
    language = arguments.get("language")
    return {**arguments, "language": language if language in backend.spec.languages else None}


@by_tests("PKG-04", on="taken")
def ignores_unknown_task(backend, arguments):
    """Transcribes when an unknown task is requested."""
    return {**arguments, "task": "transcribe"}


@by_tests("PKG-04", on="taken")
def ignores_its_tick(backend, arguments):
    """Checks tick_seconds, but never passes it on."""
    ScriptedBackend.create_processor(backend, **arguments).close()
    arguments.pop("tick_seconds", None)
    return arguments


@by_tests("PKG-04", on="taken")
def ignores_tick_of_second_policy(backend, arguments):
    """Checks tick_seconds, but passes it on with its first policy only."""
    ScriptedBackend.create_processor(backend, **arguments).close()
    if arguments.get("policy") == "alignatt":
        arguments.pop("tick_seconds", None)
    return arguments


@alone("PKG-04", on="taken", spec={"options": (*SCRIPTED_SPEC.options, PROMPT)})
def ignores_its_prompt(backend, arguments):
    """Accepts a prompt, but never passes it on."""
    arguments.pop("prompt", None)
    return arguments


@by_tests("PKG-04", on="taken", spec={"options": (*SCRIPTED_SPEC.options, DRAFTS)})
def drafts_with_one_policy(backend, arguments):
    """Takes an option for all policies, and uses it with one."""
    is_used = arguments.pop("drafts", False) and arguments.get("policy") != "alignatt"
    return {**arguments, "tick_seconds": 2.0} if is_used else arguments


@by_tests("PKG-04", on="taken")
def clamps_options(backend, arguments):
    """Replaces a number outside its range by the limit of the range."""
    if isinstance(arguments.get("tick_seconds"), int | float):
        arguments["tick_seconds"] = min(10.0, max(0.1, arguments["tick_seconds"]))
    return arguments


@by_tests("PKG-04", on="taken")
def drops_option_of_other_policy(backend, arguments):
    """Drops an option that the chosen policy does not take."""
    if arguments.get("policy") == "native":
        arguments.pop("tick_seconds", None)
    return arguments


@by_tests("PKG-04", on="load", spec={"options": (*SCRIPTED_SPEC.options, device("cpu", "cuda:N"))})
def takes_another_device(model, device="auto"):
    """Runs on the CPU if it is to run on a GPU that is not there."""
    del device
    return load(SCRIPTED_SPEC, model)


@by_tests("PKG-04", on="taken")
def caps_its_tick(backend, arguments):
    """Takes a longer tick than two seconds for one of two."""
    if arguments.get("tick_seconds", 0) in range(3, 11):
        arguments["tick_seconds"] = 2.0
    return arguments


@alone("PKG-06")
def prints(stream, emission, call):
    """Prints a line at every step, which the suite keeps until the test ends."""
    print(".")
    return emission


@alone("PKG-06", on="load")
def prints_when_loaded(model):
    """Prints a line when it is loaded."""
    if model != "digits":
        raise ModelNotFoundError(f"no model {model}; try --model digits")
    print("loading ...")
    return ScriptedBackend()


@in_sessions("PKG-06")
def prints_at_fourth_flush(stream, emission, call):
    """Prints a line at the fourth flush."""
    if stream.flushes == 4 and call != "process_iter":
        print("the cache is full")
    return emission


@by_tests("PKG-03")
class FetchesAtFirstStream(FaultyBackend):
    """Asks the network for its voice detector when its first stream is opened."""

    is_asked = False

    def taken(self, arguments):
        """Ask, and go on without it."""
        if not self.is_asked:
            self.is_asked = True
            with suppress(OSError):
                socket.getaddrinfo("localhost", 80)
        return arguments


@by_tests("PKG-04", on="taken")
def takes_two_letters_of_language(backend, arguments):
    """Takes the first two letters of a language for its code."""
    language = arguments.get("language") or ""
    return {**arguments, "language": language[:2]} if len(language) > 2 else arguments


@by_tests("PKG-04", on="taken")
def takes_auto_for_no_language(backend, arguments):
    """Detects the language if it is `auto`, which is not declared."""
    return {**arguments, "language": None} if arguments.get("language") == "auto" else arguments


@by_tests("PKG-04", on="taken")
def takes_nan_for_the_default(backend, arguments):
    """Uses the default tick if it is NaN."""
    tick = arguments.get("tick_seconds")
    if isinstance(tick, float) and math.isnan(tick):
        del arguments["tick_seconds"]
    return arguments


@by_tests("PKG-04", on="taken", spec={"options": (*SCRIPTED_SPEC.options, THREADS)})
def ignores_option_of_backend_at_stream(backend, arguments):
    """Ignores an option of the backend that is given to a stream."""
    arguments.pop("threads", None)
    return arguments
