"""Rules PKG: the declarations, imports and refusals of a plugin."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, product
import json
import math
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from wlk_conformance.backend_under_test import FREE_TEXTS, off_default
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.rules import RULES, NotApplicable, rule
from wlk_conformance.side_effects import (
    changed_state,
    network_blocked,
    process_state,
    seeded_by,
    unusual_process,
)
from wlk_conformance.stalls import ends_in_time, look_at
from wlk_conformance.suite.scenes import (
    check_raises,
    counted,
    policies_of,
    stream_option,
    texts_of_calls,
    variant_streams,
)
from wlk_conformance.testing import StreamDriver
from wlk_core.backend import LONG_FORM
from wlk_core.errors import (
    BackendError,
    BackendUnavailable,
    ModelNotFoundError,
    OptionError,
    WLKError,
)
from wlk_core.plugins import API_FLOOR, API_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_core.options import Option

HEAVY = ("numpy", "torch", "mlx", "transformers", "faster_whisper", "huggingface_hub")
BOUNDS = {"wer", "word_start_median", "word_start_bias", "invented_words"}
PROMPT = "Ada Lovelace"
NOWHERE = "no-such-owner/no-such-model-52e1"
IMPORT_LIMIT = 60.0  # seconds of its own time that an import may take, see `stalls`
TICKS = (0.5, 2.0, 5.0)  # seconds
CLIPS = (3, 4, 5, 6)  # seeds of clips in which the effect of an option may show
CHECKED_BY_NAME = {"device", "dtype", "compute_type", "alignment_heads", "lora"}


class PackagingRules:
    """Rules of the plugin as a package."""

    @rule("PKG-01", "api is not supported by this core, or a deviation names an unknown rule")
    def test_the_spec_is_valid(self, wlk: BackendUnderTest) -> None:
        """The `BackendSpec` is valid, and the installed wlk-core supports its `api` version."""
        spec = wlk.spec
        assert API_FLOOR <= spec.api <= API_VERSION, (
            f"api is {spec.api}, but this core supports {API_FLOOR} to {API_VERSION}"
        )
        assert spec.summary.strip(), "the summary is empty"
        assert "\n" not in spec.summary, "the summary must be one line"
        for name, values in (("languages", spec.languages), ("policies", spec.policies)):
            assert len(set(values)) == len(values), f"{name} repeats a value: {values}"
        for option in spec.all_options:
            if option.default is not None:
                option.convert(option.default, owner=spec.name)
        assert spec.max_delay is None or 0 < spec.max_delay < math.inf, (
            f"max_delay must be None or a positive number of seconds, got {spec.max_delay}"
        )
        assert set(spec.bounds) <= BOUNDS, f"bounds must be in {sorted(BOUNDS)}, got {spec.bounds}"
        unknown = sorted(set(spec.deviations) - (RULES.keys() - {"PKG-01"}))
        assert not unknown, f"deviations are declared for unknown rules: {', '.join(unknown)}"
        bare = sorted(key for key, reason in spec.deviations.items() if not reason.strip())
        assert not bare, f"deviations are declared without a reason: {', '.join(bare)}"

    @rule(
        "PKG-01",
        "a capability is declared for what only some models can do",
        "a logarithm or a percentage is reported as a probability",
        is_monitored=True,
    )
    def test_what_the_spec_declares_is_there(self, wlk: BackendUnderTest) -> None:
        """
        Tokens have a probability and a language if the spec declares them, else None.

        A probability is from 0 to 1.
        """
        stimulus = wlk.speech(5, seed=1)
        # The monitor of every stream checks the probability and the language of each token.
        wlk.require_tokens(wlk.run(stimulus).tokens, stimulus)

    @rule("PKG-02", "the plugin module or its package's __init__ imports the backend module")
    def test_importing_the_plugin_is_light(self, wlk: BackendUnderTest) -> None:
        """
        Importing the plugin module imports no heavy package.

        Heavy ones are numpy, torch, mlx, transformers, faster_whisper and huggingface_hub.
        """
        output = _run_python(_IMPORT, _point(wlk), wlk.spec.name, *HEAVY)
        imported = json.loads(output.splitlines()[-1])
        assert not imported, f"importing {_point(wlk)} imports {', '.join(imported)}"

    @rule(
        "PKG-03",
        "the framework fetches the model by itself, or its own error is passed on",
        "a hub library asks for a newer revision at each load",
    )
    def test_a_model_that_cannot_be_found_is_named(self, wlk: BackendUnderTest) -> None:
        """
        A missing model raises ModelNotFoundError, which names it and the command that fetches it.

        Loading a local path, a bundled model or a cached one never touches the network, nor does
        offline mode.  A path that does not exist is missing even if it ends in a model's name.
        """
        known = (wlk.model or wlk.spec.default_model or "model").split("/")[-1]
        for model in (NOWHERE, "./no/such/model-52e1", f"/no/such/{known}"):
            wlk.recipes.append(f"load(model={model!r}), offline")
            with network_blocked() as attempts:
                options = wlk.backend_options
                error = check_raises(ModelNotFoundError, model, wlk.load, model, **options)
            assert not attempts, f"model {model!r} touched the network offline: {attempts[0]}"
            assert model.split("/")[-1] in str(error), f"the error does not name the model: {error}"
            assert "wlk-core" in str(error) or "--model" in str(error), (
                f"the message names no command that helps: {error}"
            )
        wlk.backend  # noqa: B018 -- a backend that does not load fails here, with its own message
        stimulus = wlk.speech(3, seed=2)
        with network_blocked() as attempts:
            other = wlk.another_backend()
            assert not attempts, f"loading a local model touched the network: {attempts[0]}"
            with suppress(BackendError):  # a model at a server needs it
                wlk.run(stimulus, of=other)
                assert not attempts, f"the first stream touched the network: {attempts[0]}"

    @rule("PKG-04", "**kwargs swallow options, or an unknown language reaches the prompt")
    def test_no_option_is_dropped(self, wlk: BackendUnderTest) -> None:
        """
        An unknown, unsupported or contradictory option raises OptionError naming the choices.

        That holds for model, language, task, policy, device, dtype, alignment heads, LoRA, cache
        directory and all others, at load or creation.  No option is silently dropped.
        """
        wlk.recipes.append("options that are not declared, or values that they do not take")
        wlk.backend  # noqa: B018 -- a backend that does not load fails here, with its own message
        _check_refused(wlk.load_with, no_such_option=1)
        _check_refused(wlk.stream, no_such_option=1)
        choices = wlk.spec.languages[:1] if wlk.has("language-forcing") else ()
        unknown = ["xx-nowhere", "EN_us", "", "auto", *(f"{code}xx" for code in choices)]
        for language in (code for code in unknown if code not in wlk.spec.languages):
            _check_refused(wlk.stream, choices, language=language)
        _check_refused(wlk.stream, ("transcribe",), task="summarise")
        if not wlk.has("translation"):
            _check_refused(wlk.stream, task="translate")
        _check_refused(wlk.stream, wlk.spec.policies, policy="no-such-policy")
        for option in wlk.spec.all_options:
            _check_option(wlk, option)

    @rule("PKG-04", "an option is accepted, but capped or not passed on", kinds="F", since="2.0")
    def test_the_tick_changes_the_engine_calls(self, wlk: BackendUnderTest) -> None:
        """`tick_seconds`, if declared, decides how often the engine is called, with each policy."""
        option, policies = stream_option(wlk, "tick_seconds")
        stimulus = wlk.speech(16, seed=7)
        ticking = [policy for policy in policies if policy.get("policy") != LONG_FORM]
        if not ticking:
            raise NotApplicable("long-form decodes every thirty seconds")
        least, most = option.minimum or 0.0, option.maximum or math.inf
        lengths = sorted({min(max(seconds, least), most) for seconds in TICKS})
        for policy in ticking:
            counts = []
            for value in lengths:
                before = wlk.faults.count
                changes: dict[str, Any] = {**policy, option.name: value}
                wlk.run(stimulus, **changes)
                counts.append(wlk.faults.count - before)
            assert all(more > fewer for more, fewer in pairwise(counts)), (
                f"{_with(policy)}{stimulus.seconds:.1f} s took {counts} engine calls with "
                f"tick_seconds={lengths}, expected fewer with a longer one"
            )

    @rule("PKG-04", "an option reaches one policy of those that accept it", since="2.0")
    def test_options_hold_with_each_policy(self, wlk: BackendUnderTest) -> None:
        """An integer, switch or choice that has an effect with one policy has one with each."""
        is_tested = False
        for option in wlk.stream_options_left:
            if option.type in {str, float} and not option.choices:
                continue  # that of a string or a duration may not show in one clip
            effects: dict[str, bool] = {}
            for seed in CLIPS:  # a few frames of padding do not show at every length
                for policy, has_effect in _effects_by_policy(wlk, option, seed).items():
                    effects[policy] = has_effect or effects.get(policy, False)
                if len({*effects.values()}) < 2:
                    break
            is_tested = is_tested or len(effects) > 1
            silent = " or ".join(policy for policy, has_effect in effects.items() if not has_effect)
            assert len({*effects.values()}) < 2, (
                f"{option.name} changes neither work nor words {silent}but does otherwise"
            )
        if not is_tested:
            raise NotApplicable("no option can be tried with two policies", "not declared")

    @rule("PKG-04", "an utterance begins with the defaults of the backend", since="2.0")
    def test_options_hold_for_every_utterance(self, wlk: BackendUnderTest) -> None:
        """An option that has an effect on an utterance has one on the next utterance too."""
        if not wlk.variants:
            raise NotApplicable("there are no other policies and options to try", "not declared")
        for name, new_stream, stimulus in variant_streams(wlk, 4, seed=3):
            option = name.partition("=")[0]
            if option == "prompt":
                continue  # text before the audio, which what was said since may replace
            arguments = wlk.variants[name]
            usual = {key: value for key, value in arguments.items() if key != option}
            # Again if it is broken, because a cache of answers does no work twice.
            for driver in (new_stream, wlk.stream(**arguments)):
                first, second = _utterances(wlk, driver, stimulus)
                usually = _utterances(wlk, wlk.stream(**usual), stimulus)
                if first == usually[0] or second != usually[1]:
                    break
            else:
                raise AssertionError(
                    f"{_with(arguments)}an utterance has {first[1]}, and the same audio after a "
                    f"pause has {second[1]}, as without it"
                )

    @rule(
        "PKG-04",
        "a prompt is accepted but not passed on",
        "keyterms are left out if there is a prompt",
        "the options of the first stream are kept for those that differ in keyterms only",
        kinds="F",
        since="2.0",
    )
    def test_the_prompt_reaches_the_engine(self, wlk: BackendUnderTest) -> None:
        """
        A `prompt` and `keyterms`, if declared, change the work or answer, or are passed on.

        That holds with each policy, and for each of the two beside the other.
        """
        names = [
            option.name
            for option in wlk.spec.all_options
            if option.name in FREE_TEXTS
            and option.scope == "stream"
            and option.name not in wlk.options
        ]
        if not names:
            raise NotApplicable("no option prompt or keyterms is declared", "not declared")
        stimulus = wlk.speech(4, seed=3)
        shown: dict[str, bool] = {}
        for name in names:
            others = [{other: FREE_TEXTS[other]} for other in names if other != name]
            for policy, beside in product(stream_option(wlk, name)[1], ({}, *others)):
                usual = {**policy, **beside}
                with suppress(OptionError):  # not every policy of a model takes one, or both
                    shown[f"{name} {_with(usual)}"] = _has_effect(wlk, stimulus, usual, name)
        if not shown:
            raise NotApplicable(f"this model takes no {' or '.join(names)}")
        if not any(shown.values()):
            raise NotApplicable(f"no engine call has an argument named {' or '.join(names)}")
        if unknown := [what.strip() for what, each in shown.items() if not each]:
            wlk.notes.append(f"it is unknown whether these are passed on: {', '.join(unknown)}")

    @rule("PKG-05", "spec.requires lacks what is imported, or the plugin module imports it")
    def test_a_missing_framework_is_reported(self, wlk: BackendUnderTest) -> None:
        """
        A missing or broken framework raises BackendUnavailable, but backends can be listed.

        The message has the reason and the command that installs the framework.
        """
        if not wlk.spec.requires:
            raise NotApplicable(f"{wlk.spec.name} requires no distribution", "not declared")
        hidden = ",".join(wlk.spec.requires)
        for state in ("absent", "broken"):
            wlk.recipes.append(f"load with {hidden} {state}")
            lines = _run_python(_HIDE, _point(wlk), wlk.spec.name, hidden, state).splitlines()
            result = json.loads(lines[-1])
            assert result["listed"], f"listing backends fails with {hidden} {state}"
            assert result["error"] == BackendUnavailable.__name__, (
                f"with {hidden} {state}, loading raises {result['error']}: {result['message']}"
            )
            commands = set(wlk.spec.requires.values())
            assert any(command in result["message"] for command in commands), (
                f"the message names no command that installs it: {result['message']}"
            )

    @rule(
        "PKG-06",
        "a framework's progress line or a forgotten print",
        "a message to whoever closes a stream early",
    )
    def test_standard_output_belongs_to_the_caller(self, wlk: BackendUnderTest) -> None:
        """Nothing is written to standard output: it carries the caller's results."""
        other = wlk.another_backend()  # the runner checks the output of every test
        other.warmup()
        stimulus = wlk.speech(3, seed=2)
        wlk.run(stimulus, of=other).processor.get_buffer()
        for end in (StreamDriver.reset, StreamDriver.finish, lambda _: other.close()):
            driver = wlk.stream(stimulus.audio, of=other)  # audio that no step has taken
            end(driver)
            driver.processor.close()

    @rule(
        "PKG-06",
        "logging.basicConfig, os.chdir or a seed in load, for the whole program",
        "a setting that an exception keeps from being put back",
        since="2.0",
    )
    def test_the_process_belongs_to_the_caller(self, wlk: BackendUnderTest) -> None:
        """
        Loading and calls leave the process as it was, also if they fail.

        That is its working directory, environment, root logger, signal handlers, global generators
        of random numbers, settings of threads, and defaults of sockets, numpy and torch.
        """
        stimulus = wlk.speech(3, seed=2)

        def use() -> None:
            other = wlk.another_backend()
            other.warmup()
            wlk.run(stimulus, of=other)
            if wlk.has("speaker-turns"):
                wlk.stream(stimulus.audio, of=other).new_speaker(1)
            for arguments in wlk.variants.values():
                with suppress(OptionError):  # not every model has every policy of its backend
                    driver = wlk.stream(stimulus.audio, of=other, **arguments)
                    driver.end()
                    driver.reset()
            if (faults := EngineFaults.of_backend(other)) is not None:
                failing = wlk.stream(stimulus.audio, of=other)
                with faults.failing((1,)), suppress(BackendError):
                    failing.finish()
            for option in wlk.spec.options:
                for value in option.choices if option.scope == "backend" else ():
                    with suppress(WLKError):  # a device or an arithmetic that this machine lacks
                        wlk.load(wlk.model, **{**wlk.backend_options, option.name: value}).close()
            # Last, because a load that succeeds may put back what one that fails has left.
            unusable: tuple[tuple[str | None, dict[str, Any]], ...]
            unusable = ((folder, {}), (f"{folder}/none", {}), (wlk.model, {"no_such_option": 1}))
            for model, options in unusable:
                with suppress(Exception):  # PKG-03 and PKG-04 judge the error
                    wlk.load(model, **wlk.backend_options, **options).close()
            # Without the network, which changes the environment meanwhile.
            with network_blocked(), suppress(Exception):
                wlk.load(NOWHERE, **wlk.backend_options).close()

        with tempfile.TemporaryDirectory() as folder, unusual_process():
            before = process_state()
            seeded = seeded_by(use)
            # The runner compares it too, before and after every test, but as it is by default.
            changed = changed_state(before, process_state())
        assert not seeded, f"a load or a call seeds {' and '.join(seeded)}"
        assert not changed, "; ".join(changed)


def _point(wlk: BackendUnderTest) -> str:
    if wlk.entry_point is None:
        raise NotApplicable("it was not loaded from an installed plugin")
    return wlk.entry_point


def _work(wlk: BackendUnderTest, driver: StreamDriver) -> dict[str, int]:
    calls = {} if wlk.engine_calls is None else {"engine calls": wlk.engine_calls.count}
    return {**counted(driver.processor.stats), **calls}


def _utterance(
    wlk: BackendUnderTest, stimulus: Stimulus, arguments: dict[str, Any]
) -> tuple[list[str], dict[str, int]]:
    """Return what each call commits, and the work, of *stimulus* in a stream with *arguments*."""
    driver = wlk.stream(**arguments)
    before = _work(wlk, driver)
    driver.feed(stimulus.audio)
    driver.end()
    return texts_of_calls(driver), {
        name: now - before[name] for name, now in _work(wlk, driver).items()
    }


def _effects_by_policy(wlk: BackendUnderTest, option: Option, seed: int) -> dict[str, bool]:
    """Return, for each policy that accepts *option*, whether it changes the work or the words."""
    effects = {}
    for value, policy in product(off_default(option)[:1], policies_of(wlk, option)):
        stimulus = wlk.speech_for(policy, 4, seed=seed)
        with suppress(OptionError):  # not every model has every option of its backend
            changed = _utterance(wlk, stimulus, {**policy, option.name: value})
            effects[_with(policy)] = changed != _utterance(wlk, stimulus, policy)
    return effects


def _utterances(
    wlk: BackendUnderTest, driver: StreamDriver, stimulus: Stimulus
) -> list[tuple[list[str], dict[str, int]]]:
    """Return what each call commits, and the work, of *stimulus* before and after a pause."""
    utterances = []
    before, made = _work(wlk, driver), 0
    for _ in range(2):
        driver.feed(stimulus.audio)
        driver.silence(2.0)
        now, calls = _work(wlk, driver), texts_of_calls(driver)
        utterances.append((calls[made:], {name: now[name] - before[name] for name in now}))
        before, made = now, len(calls)
    return utterances


def _with(arguments: dict[str, Any]) -> str:
    return "".join(f"with {name} {value} " for name, value in arguments.items())


def _has_effect(
    wlk: BackendUnderTest, stimulus: Stimulus, usual: dict[str, Any], option: str
) -> bool:
    """
    Check that *option*, set to PROMPT beside the *usual* arguments, has an effect or is passed on.

    Returns False if that cannot be told, because no engine call has an argument of that name.
    Raises OptionError if the stream refuses it.
    """
    calls = wlk.faults.calls
    noted: list[Any] = []  # engine functions and their arguments
    wrap = calls.wrap

    def noting(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            noted.append((function, arguments))
            return function(*args, **arguments)

        return wrap(call, **options)

    plain = wlk.run(stimulus, **usual)
    with patch.object(calls, "wrap", noting):
        changed = wlk.run(stimulus, **{**usual, option: PROMPT})
    if plain.tokens != changed.tokens or counted(plain.processor.stats) != counted(
        changed.processor.stats
    ):
        return True
    passed = repr(noted)
    if f"{option}=" not in passed and not any(option in arguments for _, arguments in noted):
        return False
    assert PROMPT in passed, (
        f"{_with(usual)}{option}={PROMPT!r} is in no argument of {len(noted)} engine calls and "
        "changes no word or counter"
    )
    return True


def _run_python(code: str, *arguments: str) -> str:
    """Run *code* in a fresh interpreter, which must not fail; return its standard output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(  # noqa: S603 -- the suite's own code
            [sys.executable, "-P", "-c", code, *arguments], stdout=output, stderr=errors
        )

        def ended(seconds: float) -> bool:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            return process.returncode is not None

        try:
            is_in_time = ends_in_time(IMPORT_LIMIT, ended, look=partial(look_at, process.pid))
        finally:
            process.kill()
            process.wait()
        assert is_in_time, f"a fresh interpreter took more than {IMPORT_LIMIT:g} s"
        output.seek(0)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no message"])[-1]
        assert process.returncode == 0, f"in a fresh interpreter: {last}"
        return output.read()


def _check_refused(
    call: Callable[..., object], choices: Sequence[object] = (), **options: Any
) -> None:
    listed = ", ".join(f"{name}={value!r}" for name, value in options.items())
    error = check_raises(OptionError, listed, call, **options)
    missing = [choice for choice in choices if str(choice) not in str(error)]
    assert not missing, f"the message does not name {missing}: {error}"


def _check_option(wlk: BackendUnderTest, option: Option) -> None:
    """Check that values which *option* does not take are refused, and policies without it."""
    if option.scope == "backend":
        for bad in _bad_values(option):
            _check_refused(wlk.load_with, (option.name, *option.choices), **{option.name: bad})
        for choice in option.choices:
            if choice.endswith(":N"):
                absent = {option.name: choice.removesuffix("N") + "99"}  # which no machine has
                check_raises(WLKError, f"{absent}", wlk.load_with, **absent)
        if option.default is not None:
            _check_refused(wlk.stream, **{option.name: option.default})
    else:
        known = {"policy": option.policies[0]} if option.policies else {}
        for bad in _bad_values(option):
            _check_refused(wlk.stream, option.choices, **{**known, option.name: bad})
    declared = (option.default, *option.choices, option.minimum, option.maximum)
    value = next((value for value in declared if value is not None), None)
    if value is None or not option.policies:
        return
    for policy in sorted(set(wlk.spec.policies) - set(option.policies)):
        _check_refused(wlk.stream, (option.name,), policy=policy, **{option.name: value})


def _bad_values(option: Option) -> list[object]:
    """Return values that the option cannot take, none if any string may be valid."""
    if option.choices or option.type is str:
        is_checked = option.choices or option.name in CHECKED_BY_NAME
        return ["no-such-value"] if is_checked else []
    outside: list[object] = ["no-such-value", *([math.nan] if option.type is float else [])]
    for limit, direction in ((option.minimum, -1), (option.maximum, 1)):
        if limit is not None:
            outside += [limit + direction, limit + direction * 1_000_000]
    return outside


# The installed entry point, if there is one, knows its distribution.  Without it the registry
# cannot tell a broken plugin from one whose framework is missing, and blames the plugin as soon as
# its wheel is installed.
_REGISTRY = """
import json, sys
from importlib.metadata import EntryPoint, entry_points, packages_distributions
from wlk_core.registry import Registry

def registry(point, name):
    points = [entry for entry in entry_points(group="wlk.plugins") if entry.value == point]
    named = [entry for entry in points if entry.name == name]
    return Registry(named or points[:1] or [EntryPoint(name, point, "wlk.plugins")])
"""

_IMPORT = f"""{_REGISTRY}
point, name, *heavy = sys.argv[1:]
registry(point, name).spec(name)
print(json.dumps([module for module in heavy if module in sys.modules]))
"""

_HIDE = f"""{_REGISTRY}
point, name, distributions, state = sys.argv[1:]
normal = lambda text: text.lower().replace("_", "-").replace(".", "-")
hidden = {{normal(text) for text in distributions.split(",")}}
modules = {{module for module, owners in packages_distributions().items()
           if hidden & {{normal(owner) for owner in owners}}}}
modules |= {{text.replace("-", "_") for text in hidden}}

class Hide:
    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] not in modules:
            return None
        if state == "absent":
            raise ModuleNotFoundError(f"No module named {{fullname!r}}", name=fullname)
        raise ImportError(f"lib{{fullname}}.so: cannot open shared object file")

sys.meta_path.insert(0, Hide())
plugins = registry(point, name)
listed = name in [spec.name for spec in plugins.specs()]
result = {{"listed": listed, "error": "nothing", "message": ""}}
try:
    plugins.load_backend(name)
except BaseException as error:
    result.update(error=type(error).__name__, message=str(error))
print(json.dumps(result))
"""
