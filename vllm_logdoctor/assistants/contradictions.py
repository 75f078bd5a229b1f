"""Where a statement on a run says something else than the run's settings, figures, devices, release or model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_logdoctor.assistants.excerpt import Places
from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import accelerators
from vllm_logdoctor.run.model import Value

_TOLERANCE = 0.02
_NUMBER = r"(?P<value>-?\d+(?:,\d{3})*(?:\.\d+)?)"
_UNITS = {
    "gib": {"gib": 1.0, "gb": 1.0, "g": 1.0, "mib": 1 / 1024, "mb": 1 / 1024, "tib": 1024.0, "tb": 1024.0},
    "seconds": {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "ms": 0.001},
    "tokens": {"token": 1.0, "k token": 1000.0},
}
"""What a figure is counted in, by the end of its name: units that a statement may use, and their size."""
# max num seqs is 256     gpu memory utilization of 0.9     prefix caching was not enabled     dtype = fp8
_IS = (
    r"(?: (?:value|setting|flag|size|option|memory|limit|parameter|argument))?"
    r"(?: ?[=:]| (?:is|was|were|being|of|at|set to|has|had|holds|held|take|takes|took|only|about|currently|already|explicitly))*"
)
_STATE = r"(?P<no>not )?(?P<state>(?:enabled|disabled|active|inactive|true|false)\b|(?:on|off)(?=[.,;)]|$| and\b| but\b))"
# What is proposed or supposed is no statement on the run: set max_num_seqs=32, if prefix caching is on
_SUPPOSED = lazy_pattern(
    r"\b(?:if|when|unless|whether|sett?|try|pass|lower|rais|reduc|increas|decreas|chang)(?:ing|ed|e|es|s)?(?: the)?(?: (?:en|dis)able)? \Z"
)
_WOULD = lazy_pattern(r"[^.,;]{0,20}\b(?:would|could|should|might)\b")
# removed in vLLM 0.24.0     since vLLM 0.9.0
_OTHER_RELEASE = lazy_pattern(
    r"\b(?:removed|fixed|changed|added|introduced|supported|unmaintained|since|until|before|after|from|to|than)\b[^.]{0,12}\Z"
)
_ALIASES = {"half": "float16", "float": "float32", "bf16": "bfloat16", "fp16": "float16"}
_OFF = frozenset(("disabled", "off", "inactive", "false"))
_FEATURES = {
    "speculative_config": r"speculative decoding|speculat(?:ion|or)|draft(?:er)? model|draft tokens",
    "kv_transfer_config": r"kv connector|kv transfer|nixl|lmcache|mooncake|disaggregated prefill",
    "enable_lora": r"lora",
    "enable_expert_parallel": r"expert parallel(?:ism)?",
    "tensor_parallel_size": r"tensor parallelism",
    "pipeline_parallel_size": r"pipeline parallelism",
    "data_parallel_size": r"data parallelism",
}
"""Words for what has to be configured, by the setting that does it."""
_DENIED = lazy_pattern(
    r"\b(?:no|not|without|never|none|unset|missing|lacks?|off|disabled|isn t|can t|cannot|instead of|would|could|should|consider|try|enable)\b"
)
_VERSION = lazy_pattern(r"\bvLLM(?: version| release)? v?(\d+\.\d+\.\d+)", 2)
# on 8 GPUs     across two cards; but not: needs 8 GPUs, GPU 2
_DEVICES = lazy_pattern(
    r"\b(?:on|across|over|using|uses|used|with|has|had|all)(?: the| its| all| only| a)? (?P<count>\d+|single|one|two|three|four|eight|sixteen)"
    r" (?:gpu|npu|tpu|xpu|card|device|accelerator)s?\b"
)
_COUNTS = {"single": 1, "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
_PLATFORM = lazy_pattern(
    r"\b(?:runs?|ran|running|start(?:s|ed)|served|executed) on (?:an? |the )?"
    r"(?P<name>cpu|gpu|cuda|nvidia|rocm|amd|tpu|xpu|npu|ascend|neuron|hpu|gaudi)s?\b"
)
_PLATFORMS = {
    "gpu": ("cuda", "rocm", "xpu"),
    "nvidia": ("cuda",),
    "amd": ("rocm",),
    "ascend": ("npu",),
    "gaudi": ("hpu",),
}
# The model meta-llama/Llama-3-8B can't be split.
_MODEL = lazy_pattern(
    r"\b(?:model|serv(?:es|ed|ing)|load(?:s|ed|ing)|checkpoint)(?: is| was| of)? [`'\"]?(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]*\w)",
    2,
)


class Facts:
    """What is known of a run, to hold statements against."""

    def __init__(self, diagnosis: Diagnosis, places: Places, lines: Sequence[str]) -> None:
        self._run = diagnosis.run
        self._all_arguments = bool(diagnosis.plan.command_before)
        self._places = places
        self._lines = lines

    def against(self, statement: str) -> Iterator[str]:
        """Yield what a statement contradicts, each in one line."""
        run, text = self._run, _plain(statement)
        for known in (run.config, run.environment):
            for name, value in known.items():
                yield from self._setting(name, value, text)
        for name, value in run.measured.items():
            yield from self._figure(name, value, text)
        yield from self._features(text)
        yield from self._devices(text)
        if run.version is not None:
            for claimed in _VERSION.finditer(statement):
                is_other = _OTHER_RELEASE.search(statement[: claimed.start()])
                if not is_other and not str(run.version.value).startswith(claimed[1]):
                    yield f"the log says vLLM {run.version.value}{self._at(run.version)}, not {claimed[1]}"
        if run.model is not None:
            for one in _MODEL.finditer(statement):
                if not self._is_in_log(one["name"]):
                    yield f"the model is {run.model.value}{self._at(run.model)}, not {one['name']}"

    def _setting(self, name: str, value: Value, text: str) -> Iterator[str]:
        known, words = value.value, _plain(name)
        if isinstance(known, bool):
            stem = words.removeprefix("enable ").removeprefix("disable ")
            for said in _after(stem, _STATE, text):
                is_on = (said["state"] in _OFF) == bool(said["no"])
                # What nobody disabled may be off for another reason.
                if is_on != (known != words.startswith("disable ")) and (is_on or stem == words or known):
                    yield f"{name} is {known}{self._at(value)}"
        elif isinstance(known, int | float) and " " in words:
            for said in _after(words, rf"{_NUMBER} ?(?P<unit>%|k)?(?![\w%])", text):
                sizes = {"%": (0.01,), "k": (1000.0, 1024.0)}.get(said["unit"] or "", (1.0,))
                if not any(_same(float(known), said, size) for size in sizes):
                    yield f"{name} is {known:,}{self._at(value)}, not {said['value']}{said['unit'] or ''}"
        elif isinstance(known, str):
            for said in _after(words, r"(?P<value>[a-z0-9][\w.]*\w)", text):
                claimed = _ALIASES.get(said["value"], said["value"])
                differs = known != "auto" and not _plain(known).startswith(claimed)
                if differs and self._is_value(name, said["value"]):
                    yield f"{name} is {known}{self._at(value)}, not {said['value']}"

    def _figure(self, name: str, value: Value, text: str) -> Iterator[str]:
        known = value.value
        if isinstance(known, bool) or not isinstance(known, int | float):
            return
        stem, _, unit = name.rpartition("_")
        units = _UNITS.get(unit, {})
        claimed = [(one, 1.0) for one in _after(_plain(name), _NUMBER, text)]
        if units:
            stem = _plain(stem).removeprefix("available ")
            pattern = rf"{_NUMBER} ?(?P<unit>{'|'.join(sorted(units, key=len, reverse=True))})s?\b"
            claimed += [(one, units[one["unit"]]) for one in _after(stem, pattern, text)]
        for said, size in claimed:
            if not _same(float(known), said, size):
                yield f"{name} is {known:,}{self._at(value)}, not {said[0][said.start('value') - said.start() :]}"

    def _features(self, text: str) -> Iterator[str]:
        for field, words in _FEATURES.items():
            for found in re.finditer(rf"\b(?:{words})\b", text):
                around = text[max(0, found.start() - 40) : found.end() + 30]
                if not _DENIED.search(around) and self._is_unset(field):
                    known = self._run.config.get(field)
                    yield f"{field} is {'not set' if known is None else known.value}{self._at(known) if known else ''}"
                    break

    def _devices(self, text: str) -> Iterator[str]:
        count, platform = accelerators(self._run), self._run.platform
        for found in _DEVICES.finditer(text):
            said = _COUNTS.get(found["count"]) or int(found["count"])
            if count is not None and platform not in (None, "cpu") and said != count:
                yield f"the run used {count} {'device' if count == 1 else 'devices'}, not {said}"
        for found in _PLATFORM.finditer(text):
            if platform is not None and platform not in _PLATFORMS.get(found["name"], (found["name"],)):
                yield f"the platform is {platform}, not {found['name']}"

    def _is_unset(self, field: str) -> bool:
        """Return True if it is known that nobody configured a feature."""
        known = self._run.config.get(field)
        if known is not None:
            return known.value is not True and known.value in (None, False, 1, "", {})
        version = self._run.version if self._all_arguments else None
        return version is not None and flag_for_field(field, str(version.value)) is not None

    def _is_value(self, field: str, said: str) -> bool:
        """Return True if a word can be a value of a setting: "fp8" of a type, but not "small"."""
        version = self._run.version
        flag = flag_for_field(field, str(version.value)) if version else None
        return said in {_plain(str(one)) for one in (flag.choices if flag else ())}

    def _is_in_log(self, name: str) -> bool:
        wanted = name.lower()
        settings = (str(one.value) for one in self._run.config.values())
        return any(wanted in text.lower() for text in (*self._lines, *settings))

    def _at(self, value: Value) -> str:
        return "".join(f" [L{at}]" for at in self._places.of(value.evidence, 1))


def _plain(text: str) -> str:
    """Return text in small letters in which names of settings, flags and variables are words."""
    return " ".join(re.sub(r"['\"`*]|--|(?<=[a-z0-9])[_-](?=[a-z0-9])", " ", text.lower()).split())


def _after(name: str, pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield what a statement says that a name is."""
    if name in text:
        for found in re.finditer(rf"\b{re.escape(name)}{_IS}[ ]?\(?(?<![\d.]){pattern}", text):
            if not _SUPPOSED.search(text[: found.start()]) and not _WOULD.match(text, found.end()):
                yield found


def _same(known: float, said: re.Match[str], size: float) -> bool:
    """Return True if a figure is the known one as far as it was said: "8 GiB" for 7.83 GiB."""
    figure = said["value"].replace(",", "")
    half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) if "." in figure or size != 1.0 or known % 1 else 0.0
    return abs(known - float(figure) * size) <= max(
        half * size, _TOLERANCE * max(abs(known), abs(float(figure) * size))
    )
