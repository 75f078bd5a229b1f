"""Configuration findings: what was set and does nothing, what was overridden, what a later release will not
take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vllm_logdoctor.knowledge.flags import OF_V0_ONLY, flag_for_field, flag_spans
from vllm_logdoctor.knowledge.renames import removal_note
from vllm_logdoctor.knowledge.translation import Removed, Renamed, translate_flag, translate_variable
from vllm_logdoctor.knowledge.variables import variable_known, variable_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.fp8 import capability_of
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Evidence, Run, Value
from vllm_logdoctor.run.repr_parser import read_value

_LEAST_BFLOAT16 = 8.0
"""Compute capability from which cards have bfloat16; the bounds of a card's generation are below it."""
# The official images set them to say where they were built, or `setup.py` reads them: a server has no use for them.
_OF_THE_BUILD = frozenset(
    {
        "VLLM_BUILD_COMMIT", "VLLM_BUILD_PIPELINE", "VLLM_BUILD_URL", "VLLM_IMAGE_TAG", "VLLM_PRECOMPILED_WHEEL_COMMIT",
        "VLLM_PRECOMPILED_WHEEL_LOCATION", "VLLM_PRECOMPILED_WHEEL_VARIANT", "VLLM_ROCM_WHEEL_INDEX", "VLLM_VERSION_OVERRIDE",
    }
)  # fmt: skip
# VLLM_SERVICE_HOST   VLLM_SERVICE_PORT_HTTP   VLLM_ROUTER_PORT_8000_TCP_ADDR
_OF_A_SERVICE = lazy_pattern(r"_SERVICE_(?:HOST|PORT(?:_\w+)?)\Z|_PORT_\d+_(?:TCP|UDP)(?:_\w+)?\Z")
# visual.blocks.0.attn.proj.weight      model.vision_tower.encoder.layers.3.bias
_OF_VISION = lazy_pattern(r"(?:^|\.)(?:visual|vision_\w+)\.")
_WITHOUT_VISION = "of the vision encoder: answers about images may be wrong, text does not use it."
# the model's `generation_config.json`: `{'temperature': 1.0, 'top_k': 64}`. If this is not intended, ...
_DICTIONARY = lazy_pattern(r"\{[^{}\n]{1,400}\}")
_PLAIN_SAMPLING = {
    "temperature": (1,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,), "repetition_penalty": (1,),
}  # fmt: skip
"""What vLLM samples with where neither the request nor the checkpoint says anything."""
_WITHOUT_MEANING: tuple[Any, ...] = (None, False, 0, "", [], {})


def engine_fell_back_to_v0(case: RuleContext) -> Advice | None:
    """A setting that V1 does not support made V0 run. Needs vLLM's warning."""
    event = case.event("engine-v0-fallback")
    if event is None or case.run.engine == "V1":
        return None
    feature = event.text("feature").strip().strip("`'\"")
    changes: tuple[Change, ...] = ()
    if feature.startswith("--") and " " not in feature:
        field = feature.removeprefix("--").replace("-", "_")
        before = case.run.setting(field)
        changes = (
            flag(case, feature, before, None, "needs-test", "V1 then runs")
            if before not in _WITHOUT_MEANING
            else ()
        )
    text = (
        f"{feature} is not supported by the V1 engine of this release: vLLM took the old V0 engine instead."
    )
    asked = feature.startswith(("--", "VLLM_")) and not feature.startswith("--task")
    release = "use a release whose V1 engine supports"
    way = f"drop {feature}, or {release} it" if asked else f"{release} {feature}"
    return Advice(
        text,
        message_lines(case, "engine-v0-fallback"),
        confidence="high",
        changes=changes or (action(way),),
        verify="`Initializing a V1 LLM engine` at the start.",
    )


# Unknown vLLM environment variable detected: VLLM_X      Copying the following environment variables to workers: ['VLLM_X']
_NAMES_VARIABLES = lazy_pattern(r"(?i)environment variable|\benv(?:ironment)?\b ?[:=]")


def environment_variable_ignored(case: RuleContext) -> Advice | None:
    """Variables that the release does not know.

    Needs vLLM's warning, printed since 0.13, or a launch script's line that sets a variable of another release.
    """
    seen = case.run.seen("environment-variable-unknown")
    lines: dict[str, tuple[Evidence, ...]] = {
        event.text("name"): (case.run.evidence(event.record),)
        for event in reversed(seen.first if seen else ())
    }
    for name, value in _variables_of_other_releases(case.run).items():
        lines.setdefault(name, value.evidence)
    names = sorted(name for name in lines if name not in _OF_THE_BUILD and not _is_read(case.run, name))
    if not names:
        return None
    services = [
        name
        for name in names
        if _OF_A_SERVICE.search(name) or name.removesuffix("_PORT") + "_SERVICE_HOST" in lines
    ]
    once = [name for name in names if variable_spans(name) and name not in services]
    other = [name for name in names if name not in once and name not in services]
    parts = [_fate(name, case.version) for name in once]
    if other:
        parts.append(
            f"{', '.join(other)}: read by no vLLM release (misspelt, or meant for a plugin, a fork or a script of your own)"
        )
    if services:
        parts.append(
            f"{', '.join(services)}: set by Kubernetes for a service whose name begins with vllm; they do no harm"
        )
    text = ("" if other else "vLLM does not read these variables. ") + "; ".join(parts) + "."
    return Advice(
        text,
        tuple(line for name in (*once, *other, *services) for line in lines[name]),
        confidence="high",
        severity=None if once else "info",
        title="" if once or services else "VLLM_ environment variable that no release of vLLM knows",
        changes=[change for name in once for change in _replacement(case, name)],
        verify="no such warning at the start.",
    )


def _is_read(run: Run, name: str) -> bool:
    """Return whether code of this run logs a variable that no release knows: a fork or a plug-in reads it.

    INFO 05-03 10:00:00 [core.py:487] own cache active (VLLM_OWN_CACHE=1)
    """
    logged = (one.message for one in trail_of(run) if one.call_site is not None and name in one.message)
    return any(_NAMES_VARIABLES.search(text) is None for text in logged)


def argument_without_effect(case: RuleContext) -> Advice | None:
    """Arguments of the V0 engine given to a V1 engine. Needs the arguments and the engine in the log."""
    run = case.run
    if run.engine != "V1":
        return None
    idle = [name for name in OF_V0_ONLY if _was_given(case, name)]
    if not idle:
        return None
    flags = [f"--{name.replace('_', '-')}" for name in idle]
    of_flags = [(name, note) for name in flags if (note := removal_note(name))]
    notes = "; ".join(f"{name}: {note}" if len(flags) > 1 else note for name, note in of_flags)
    text = f"{', '.join(flags)} {'has' if len(flags) == 1 else 'have'} no effect in the V1 engine" + (
        f" ({notes})." if notes else "."
    )
    return Advice(
        text,
        setting_lines(case, *idle),
        confidence="high",
        changes=[
            change
            for name, word in zip(idle, flags, strict=True)
            for change in flag(case, word, run.arguments.get(name), None)
        ],
        verify=f"no {' and no '.join(flags)} in the arguments.",
    )


def weights_cast_to_half(case: RuleContext) -> Advice | None:
    """bfloat16 weights run as float16. Needs vLLM's line that says so, no engine that runs another type after it, and a card with bfloat16."""
    event = case.event("dtype-cast", "dtype-upcast")
    if (
        event is None
        or "bfloat16" not in event.text("before")
        or not event.text("dtype").endswith("float16")
        or "bfloat16" in event.text("dtype")
        or str(case.run.setting("dtype") or "").endswith("bfloat16")
        or capability_of(case.run).most < _LEAST_BFLOAT16
    ):
        return None
    text = (
        "The checkpoint is bfloat16 and runs as float16: large activations can overflow. Speed is the same."
    )
    return Advice(
        text,
        (*message_lines(case, "dtype-cast", "dtype-upcast"), *setting_lines(case, "dtype")),
        confidence="medium",
        alternatives=("--dtype auto, if card and kernels take bfloat16 and answers turn to garbage",),
        verify="no cast line at the start.",
    )


def deprecated_argument(case: RuleContext) -> Advice | None:
    """Things in use that a later release will not take. Needs vLLM's deprecation warnings."""
    seen = {
        name: found
        for name, found in case.run.messages.items()
        if found.first[0].pattern.topic == "deprecation" and found.first[0].record.level == "WARNING"
    }
    if not seen:
        return None
    texts = [found.first[0].record.message.split(". ")[0][:140] for found in list(seen.values())[:4]]
    text = f"{len(seen)} deprecation {'warning' if len(seen) == 1 else 'warnings'}: " + "; ".join(texts) + "."
    return Advice(
        text,
        message_lines(case, *seen, most=5),
        confidence="high",
        verify="no deprecation warning at the start.",
    )


def sampling_defaults_from_model(case: RuleContext) -> Advice | None:
    """Sampling defaults come from the checkpoint. Needs vLLM's warning, and no printed values that are vLLM's own."""
    warned, printed = (
        case.event(name) for name in ("sampling-defaults-overridden", "sampling-defaults-printed")
    )
    if warned is None:
        return None
    values = _printed_values(printed.text("values") if printed is not None else warned.text("source"))
    differing = [name for name, value in values.items() if value not in _PLAIN_SAMPLING.get(name, ())]
    if values and not differing:
        return None
    named = ", ".join(f"{name}={values[name]}" for name in differing if isinstance(values[name], int | float))
    effect = (
        f". Answers of more than {values['max_tokens']:,} tokens are cut; the other values are vLLM's own defaults."
        if differing == ["max_tokens"]
        else f"{f' ({named})' if named else ''} instead of vLLM's defaults."
    )
    return Advice(
        f"A sampling parameter that a request does not set comes from the checkpoint's generation_config.json{effect}",
        message_lines(
            case, "sampling-defaults-overridden", *(("sampling-defaults-printed",) if values else ())
        ),
        confidence="high",
        alternatives=("--generation-config vllm for vLLM's own defaults",),
        verify="no such warning, where that is wanted.",
    )


def _printed_values(text: str) -> dict[str, Any]:
    """Return the sampling parameters in a text, none where they are not in it or cut off."""
    found = _DICTIONARY.search(text)
    values = read_value(found[0]) if found is not None else {}
    return values if isinstance(values, dict) else {}


def weights_left_out(case: RuleContext) -> Advice | None:
    """The loader skipped weights of the checkpoint. Needs vLLM's warning."""
    seen = case.run.messages.get("weight-without-place-skipped")
    if seen is None:
        return None
    names = [one.text("weight") for one in (*seen.first, seen.last or seen.first[0])]
    first = names[0]
    warned = "once" if seen.count == 1 else f"{seen.count:,} times"
    return Advice(
        f"vLLM warned {warned} that the model has no place for a weight of the checkpoint, first for {first}."
        " The log does not show whether the model holds these weights under other names."
        + _of_one_part(
            names, f"All {seen.count:,}" if seen.count < len(names) else "The first ones and the last one"
        ),
        message_lines(case, "weight-without-place-skipped"),
        confidence="medium",
        alternatives=("send a request that uses this part of the model, and check the answer",),
        verify="no such warning, or a right answer of that part.",
    )


def _of_one_part(names: Sequence[str], said_of_all: str) -> str:
    """Return which part of the model weights belong to, where their names show it."""
    of_vision = [_OF_VISION.search(name) is not None for name in names]
    if len(set(names)) > 1 and all(of_vision):
        return f" {said_of_all} are {_WITHOUT_VISION}"
    parts = {name.partition(".")[0] for name in names}
    if len(set(names)) > 1 and len(parts) == 1:
        return f" {said_of_all} are of `{parts.pop()}`."
    return f" The first one is {_WITHOUT_VISION}" if of_vision[0] else ""


def _variables_of_other_releases(run: Run) -> dict[str, Value]:
    """Return what the launch set and the run's release does not declare, though another release does."""
    return {
        name: value
        for name, value in run.environment.items()
        if value.provenance == "explicit"
        and variable_spans(name)
        and variable_known(name, run.release) is False
    }


def _was_given(case: RuleContext, name: str) -> bool:
    value = case.run.arguments.get(name)
    if value in _WITHOUT_MEANING or not flag_spans("--" + name.replace("_", "-")):
        return False
    known = flag_for_field(name, case.version)
    default = known.default if known is not None and not known.default_is_source else None
    return value != default and case.asked_for(name)


def _fate(name: str, version: str | None) -> str:
    found = translate_variable(name, version)
    if isinstance(found, Renamed):
        key = f" ({found.key})" if found.key else ""
        return f"{name}: now {found.to}{key}"
    if isinstance(found, Removed):
        return f"{name}: gone since {found.since}" + (f", {found.note}" if found.note else "")
    return f"{name}: not in this release"


def _replacement(case: RuleContext, name: str) -> Iterator[Change]:
    found = translate_variable(name, case.version)
    if isinstance(found, Renamed):
        known = translate_flag(found.to, case.version) if found.kind == "flag" else None
        yield action(
            f"use {found.to} instead of {name}"
            if known is not None or found.kind == "env"
            else f"remove {name}"
        )
        return
    yield action(f"remove {name}")


RULES = (
    Rule("engine-fell-back-to-v0", engine_fell_back_to_v0, needs=("engine-v0-fallback",)),
    Rule("environment-variable-ignored", environment_variable_ignored),
    Rule("argument-without-effect", argument_without_effect),
    Rule("weights-cast-to-half", weights_cast_to_half, needs=("dtype-cast", "dtype-upcast")),
    Rule("deprecated-argument", deprecated_argument),
    Rule("weights-left-out", weights_left_out, needs=("weight-without-place-skipped",)),
    Rule(
        "sampling-defaults-from-model", sampling_defaults_from_model, needs=("sampling-defaults-overridden",)
    ),
)
