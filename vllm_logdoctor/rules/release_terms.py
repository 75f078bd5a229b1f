"""Advice by release: pages name the settings of today's vLLM, a run of another release gets what that release has."""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import OF_V0_ONLY, field_of, flag_at, flag_exists, flag_spans
from vllm_logdoctor.knowledge.history import ReleaseSpan
from vllm_logdoctor.knowledge.messages import message_table
from vllm_logdoctor.knowledge.renames import renames
from vllm_logdoctor.knowledge.translation import Renamed, translate_flag
from vllm_logdoctor.knowledge.variables import variable_default, variable_known, variable_spans
from vllm_logdoctor.knowledge.versions import at_least, number_of, parse_version
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Evidence, Run

_HELP = "`vllm serve --help=all`"
_LAST_WITH_V0 = "0.10.2"
_LONG_KNOWN = "0.10.2"
# The last release that had a platform's backend, and the package that has it now.
_LEFT_VLLM = {
    "hpu": ("0.9.2", "vllm-gaudi"),
    "neuron": ("0.10.1.1", "vllm-neuron"),
    "tpu": ("0.13.0", "tpu-inference"),
}
# File "/opt/venv/lib/python3.10/site-packages/vllm/executor/gpu_executor.py", line 36, in _init_executor
# File ~/anaconda3/lib/python3.12/site-packages/vllm/model_executor/models/utils.py:237, in load_weights
_PLACE = lazy_pattern(r'File "?[^"\n]{0,300}/vllm/(?P<file>[\w/]{1,200}\.py)[":]')
_MOST_OF_LINE = 600
# File "/home/me/vllm/vllm/engine/llm_engine.py", line 9, in step
_TREE = lazy_pattern(r'File "(?P<tree>(?![^"\n]*-packages/)[/~](?:[^/"\n]*/)*[^/"\n]*vllm[^/"\n]*)/vllm/\w')
_INTO_NEW = "`pip install vllm==<version>` into a new environment, and no other packages into it"
_BUILD_ANEW = "build these sources there, with the requirements that they name"
_REINSTALL = "pip install --force-reinstall vllm==<version>"
# 0.1.dev15917+g0a6396b45      0.23.1rc1.dev1201+gd08eebad1.d20260717      0.23.1.post1.dev498+g802ead286.dirty
_CHANGED_SOURCES = lazy_pattern(r"\.d\d{8}$|\.dirty$")
# Use a newer release of vLLM and of the library.      try a newer release, or the last one that worked
_NEWER_RELEASE = lazy_pattern(
    r"\b(?P<verb>[Uu]se|try) a newer release(?P<or_last>, or the last one that worked)?"
)
# `--attention-backend TRITON_ATTN`      `--moe-backend`
_FLAG = lazy_pattern(r"`(?P<flag>--[a-z][a-z0-9-]*)(?: (?P<value>[^\s`]+))?`")
# Change one kernel at a time: another attention backend (`--attention-backend`), sampling (`VLLM_USE_FLASHINFER_SAMPLER=0`).
# What advice takes away is there: remove VLLM_USE_V1      use --attention-backend instead of VLLM_ATTENTION_BACKEND
_KNOB = lazy_pattern(
    r"(?<![\w-])(?<!remove )(?<!instead of )(?P<knob>--[a-z][a-z0-9-]+|VLLM_[A-Z0-9_]+)"
    r"(?:=(?P<number>\d+)|[ =](?P<value>[a-z0-9]+_[a-z0-9_]+|(?!NAME\b)[\w.-]+(?=`)))?"
)
_LIST = lazy_pattern(r": (?P<items>[^.;:]*`[^.;:]*, [^.;:]*)")
# Set `VLLM_TARGET_DEVICE=cpu` (from 0.4.2 on).      (before 0.8.5 `--enable-chunked-prefill=False`)      (0.10.1 and later)
_OF_RELEASES = lazy_pattern(r" \((?:before |from )?(?P<since>0(?:\.\d+)+)(?: on| and later| `[^`()]*`)\)")
# For adapters of the hub (from 0.5.3 on) check name and access.
_SINCE = lazy_pattern(r" \((?:from )?(?P<since>0(?:\.\d+)+)(?: on| and later)\)")
_OF_ENGINE_LINE = ("enforce_eager", "kv_cache_dtype", "quantization", "disable_custom_all_reduce")
"""Settings that the engine has printed since there are flags for them."""
_BETWEEN = lazy_pattern(r"(, (?:and |or )?)")


def release_of(run: Run) -> str | None:
    """Return the release by which advice is worded: that of the log, else the last one that has the files of its tracebacks.

    Where these tell nothing, an engine V0 is taken for the last release that had it.
    """
    if run.version is not None:
        return str(run.version.value)
    return _last_with(_files_of(run)) or (_LAST_WITH_V0 if run.engine == "V0" else None)


def _files_of(run: Run) -> frozenset[str]:
    """Return the files of vLLM in the tracebacks of a run."""
    return frozenset(
        found["file"] for record in trail_of(run) for found in _PLACE.finditer(record.message[:_MOST_OF_LINE])
    )


def _left_with_v0(run: Run) -> bool:
    """Return whether an engine V0 runs a model whose code vLLM has had for as long as V0, and no longer."""
    models = (one for one in _files_of(run) if one.startswith("model_executor/models/"))
    return run.engine == "V0" and any(_last_with(frozenset({one})) == _LAST_WITH_V0 for one in models)


@lru_cache(maxsize=16)
def _last_with(files: frozenset[str]) -> str | None:
    """Return the last release that has all of some files of vLLM; None where the newest one has them."""
    table = message_table()
    ends = [end for file in files if (end := table.last_with(file)) is not None]
    last = min(ends, default=len(table.versions))
    return table.versions[last] if last < len(table.versions) - 1 else None


def in_words_of_build(text: str, run: Run) -> str:
    """Return advice to use a newer release as advice on sources, where the run's vLLM was built from some of its own.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(version=Value("0.23.1rc1.dev12+gd08eebad1.d20260717", "reported"))
        >>> in_words_of_build("Use a newer release: it may not have this limit.", run)
        'Build from newer sources: it may not have this limit.'
        >>> run.config["own_cache"] = Value(True, "explicit")
        >>> in_words_of_build("Use a newer release: it may not have this limit.", run)
        'Report it to whoever maintains this build: no release of vLLM has its option `--own-cache`.'
        >>> in_words_of_build("Report it with the traceback to vLLM.", run)
        'Report it to whoever maintains this build: no release of vLLM has its option `--own-cache`.'
        >>> in_words_of_build("Use a newer release: it may not have this limit.", Run(platform="hpu"))
        'Use vllm-gaudi, or a newer release up to 0.9.2: later releases of vLLM itself have no hpu backend.'
    """
    if text.startswith("Use a newer release") and _left_with_v0(run):
        without = "later ones have neither the V0 engine nor this model"
        return (
            "" if run.release == _LAST_WITH_V0 else f"Use a newer release up to {_LAST_WITH_V0}: {without}."
        )
    if text.startswith("Use a newer release") and has_left_vllm(run):
        last, package = _LEFT_VLLM[str(run.platform)]
        newer = "" if run.release == last else f", or a newer release up to {last}"
        return f"Use {package}{newer}: later releases of vLLM itself have no {run.platform} backend."
    if not _is_own_build(run):
        return text
    own = next(iter(options_of_fork(run)), "")
    to_vllm = text.startswith("Report it ") and text.endswith(" to vLLM.")
    if own and (to_vllm or text.startswith(("Use a newer release", "Search the issues of vLLM"))):
        return f"Report it to whoever maintains this build: no release of vLLM has its option `{own}`."
    return _NEWER_RELEASE.sub(_newer_sources, text.replace(_INTO_NEW, _BUILD_ANEW))


def in_words_of_install(text: str, run: Run) -> str:
    """Return advice to install vLLM again as advice to build it again, where its code lies in a source tree."""
    if _REINSTALL not in text:
        return text
    tree = source_tree(run)
    return text if tree is None else text.replace(_REINSTALL, f"pip install -e {tree}")


def source_tree(run: Run) -> str | None:
    """Return the folder of the sources from which vLLM runs, by the frames of the log, or None: /home/me/vllm."""
    found = (_TREE.search(record.message[:_MOST_OF_LINE]) for record in trail_of(run))
    return next((one["tree"] for one in found if one is not None), None)


def has_left_vllm(run: Run) -> bool:
    """Return whether the backend of a run's platform has since left vLLM for a package of its own, and the run is not of that package."""
    if run.platform not in _LEFT_VLLM:
        return False
    version, last = (
        parse_version(str(run.version.value)) if run.version else None,
        parse_version(_LEFT_VLLM[run.platform][0]),
    )
    return version is None or last is None or version <= last


def _is_own_build(run: Run) -> bool:
    version = parse_version(str(run.version.value)) if run.version else None
    return version is not None and not (
        version.names_a_release and not _CHANGED_SOURCES.search(version.local or "")
    )


def options_of_fork(run: Run) -> dict[str, tuple[Evidence, ...]]:
    """Return the options of the launch that no release of vLLM has, each with its lines; none of a build of a release's own sources."""
    if not _is_own_build(run):
        return {}
    given = {
        f"--{name.replace('_', '-')}": one.evidence
        for name, one in run.config.items()
        if one.provenance == "explicit"
    }
    return {flag: lines for flag, lines in given.items() if not flag_spans(flag)}


def in_words_of_release(text: str, run: Run) -> str:
    """Return advice with what the run's release has for the settings that it names, and without items that it lacks.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(version=Value("0.10.2", "reported"))
        >>> in_words_of_release("Set `--attention-backend TRITON_ATTN`.", run)
        'Set `VLLM_ATTENTION_BACKEND=TRITON_ATTN`.'
        >>> in_words_of_release("Change one: attention (`--attention-backend`), experts (`--moe-backend`).", run)
        'Change one: attention (`VLLM_ATTENTION_BACKEND`).'
        >>> in_words_of_release("Set `VLLM_TARGET_DEVICE=cpu` (from 0.4.2 on).", run)
        'Set `VLLM_TARGET_DEVICE=cpu`.'
        >>> in_words_of_release("Set `--attention-backend`.", Run())
        'Set `--attention-backend` (before 0.13 `VLLM_ATTENTION_BACKEND`).'
    """
    release = release_of(run)
    known = _LIST.sub(
        partial(_known_items, release=release, engine=run.engine), text.replace(_HELP, _help_of(release))
    )
    known = _OF_RELEASES.sub(lambda found: "" if at_least(run.release, found["since"]) else found[0], known)
    return _FLAG.sub(
        lambda found: found[0] if _is_given(found["flag"], run) else _of_release(found, release=release),
        known,
    )


def _is_given(flag: str, run: Run) -> bool:
    """Return whether the log shows that a flag was given: then the release has it by this name."""
    given = run.config.get(flag.removeprefix("--").replace("-", "_"))
    return given is not None and given.provenance == "explicit"


def fits_release(text: str, run: Run) -> bool:
    """Return whether the run's release has every setting of vLLM, and value of one, that a piece of advice names.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(version=Value("0.9.2", "reported"))
        >>> fits_release("a fixed --kv-cache-memory-bytes", run), fits_release("ask for --cpus-per-task", run)
        (False, True)
        >>> fits_release("Set `--block-size 256`.", run), fits_release("Set `--block-size 64`.", run)
        (False, True)
    """
    release = release_of(run)
    later = any(at_least(release, one["since"]) is False for one in _SINCE.finditer(text))
    return not later and all(
        _is_given(one["knob"], run) or (_has(one, release, run.engine) and not _predates(one["knob"], run))
        for one in _KNOB.finditer(text)
    )


def action_of_release(change: Change, run: Run) -> Change | None:
    """Return an action in the words of the run's release; None where it names what that release lacks.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(version=Value("0.9.2", "reported"))
        >>> action_of_release(Change("read other files: `--load-format auto`, `--safetensors-load-strategy eager`", "action"), run).knob
        'read other files: `--load-format auto`'
        >>> action_of_release(Change("fix the size: --kv-cache-memory-bytes", "action"), run) is None
        True
    """
    words = in_words_of_release(change.knob, run)
    after = in_words_of_release(change.after, run) if isinstance(change.after, str) else change.after
    return replace(change, knob=words, after=after) if fits_release(f"{words} {after}", run) else None


def _predates(knob: str, run: Run) -> bool:
    """Return whether a run is of a release before a flag: its engine, which did not print its release yet, prints no such setting.

    Initializing an LLM engine with config: model='org/m', ..., quantization=awq, seed=0)
    """
    field, printed = field_of(knob), run.engine_config
    return run.version is None and "seed" in printed and field in _OF_ENGINE_LINE and field not in printed


def _has(named: re.Match[str], release: str | None, engine: str | None) -> bool:
    """Return whether a release has a setting, its engine reads it, and its value is one of those and not the default anyway."""
    knob, value = named["knob"], named["value"]
    if not _spans(knob):
        return True
    if engine == "V1" and field_of(knob) in OF_V0_ONLY:
        return False
    if named["number"] and str(variable_default(knob, release)) == named["number"]:
        return False
    flag = flag_at(knob, release) if knob.startswith("--") else None
    offered = flag is None or not flag.choices or value is None or value in map(str, flag.choices)
    return offered and _exists(knob, release)


def _help_of(release: str | None) -> str:
    """Return the command that lists all arguments; older releases list them without being asked for all."""
    if at_least(release, "0.6.0") is False:
        return "`python -m vllm.entrypoints.openai.api_server --help`"
    return "`vllm serve --help`" if at_least(release, "0.11.0") is False else _HELP


def renamed(flag: str, release: str | None) -> Renamed | None:
    """Return the setting that does a flag's work in a release that lacks it; None where the release has it, or nothing for it."""
    found = translate_flag(flag, release)
    return found if isinstance(found, Renamed) and not found.key and not found.inverted else None


def _newer_sources(advice: re.Match[str]) -> str:
    if advice["or_last"]:
        return "build from newer sources, or the last ones that worked"
    return "Build from newer sources" if advice["verb"] == "Use" else "build from newer sources"


def _of_release(found: re.Match[str], release: str | None) -> str:
    """Return a setting under its name in a release; of an unknown one with the variable that did its work before."""
    if release is None:
        before = next((one.to for one in renames() if one.name == found["flag"] and not one.key), "")
        spans = flag_spans(found["flag"])
        since = spans[0].since.removesuffix(".0") if spans else ""
        # A flag that was called otherwise needs no word: whoever starts that release sees its list of flags.
        if before.isupper():
            words = f"before {since} {_written(before, found['value'])}"
        elif not before and _is_new(found["flag"]):
            words = f"{since} and later"
        else:
            return found[0]
        inside = found.string[: found.start()].endswith("(")
        return f"{found[0]}, {words}" if inside else f"{found[0]} ({words})"
    other = renamed(found["flag"], release)
    return found[0] if other is None else _written(other.to, other.value or found["value"])


def _written(knob: str, value: str | None) -> str:
    if value is None:
        return f"`{knob}`"
    return f"`{knob} {value}`" if knob.startswith("--") else f"`{knob}={value}`"


def _known_items(found: re.Match[str], release: str | None, engine: str | None) -> str:
    """Return a list without the items whose settings the release lacks; all of them where it has none."""
    first, *others = _BETWEEN.split(found["items"])
    items = [("", first), *zip(others[::2], others[1::2], strict=True)]
    known = [
        (between, item)
        for between, item in items
        if _is_open(item) or all(_usable(one, release, engine) for one in _KNOB.finditer(item))
    ]
    if not known or len(known) == len(items):
        return found[0]
    return f": {known[0][1]}{''.join(between + item for between, item in known[1:])}"


def _is_open(item: str) -> bool:
    """Return whether an item holds one end of parentheses only: without it the sentence would break."""
    return item.count("(") != item.count(")")


def _usable(named: re.Match[str], release: str | None, engine: str | None) -> bool:
    return _has(named, release, engine) or renamed(named["knob"], release) is not None


def _is_new(knob: str) -> bool:
    spans = _spans(knob)
    return bool(spans) and number_of(spans[0].since) > number_of(_LONG_KNOWN)


def _spans(knob: str) -> tuple[ReleaseSpan, ...]:
    return flag_spans(knob) if knob.startswith("--") else variable_spans(knob)


def _exists(knob: str, release: str | None) -> bool:
    return (
        flag_exists(knob, release) if knob.startswith("--") else variable_known(knob, release)
    ) is not False
