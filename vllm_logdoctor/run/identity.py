"""Who ran: version, engine generation, platform, model, server or offline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vllm_logdoctor.knowledge.versions import at_least, known_versions, parse_version, release_number
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.model import Evidence, Kind, Value
from vllm_logdoctor.run.owners import PROGRAM, owner_of
from vllm_logdoctor.run.platform_detection import installed_in

if TYPE_CHECKING:
    from vllm_logdoctor.knowledge.call_sites import FittingReleases

_PLUGINS = {
    "ascend": "npu",
    "rbln": "npu",
    "hpu": "hpu",
    "neuron": "neuron",
    "optimum_neuron": "neuron",
    "spyre": "cpu",
    "tpu": "tpu",
    "metax": "cuda",
}
_PLATFORMS = {"cuda", "rocm", "tpu", "xpu", "cpu", "hpu", "npu", "neuron"}
# Files that only one platform's code has.
_FILES = (
    ("npu", re.compile(r"(?:^|[_/])npu|ascend")),
    ("hpu", re.compile(r"(?:^|[_/])hpu|gaudi")),
    ("tpu", re.compile(r"(?:^|[_/])tpu|pallas")),
    ("neuron", re.compile(r"neuron")),
    ("xpu", re.compile(r"(?:^|[_/])xpu")),
    ("rocm", re.compile(r"(?:^|[_/])rocm|aiter")),
    ("cpu", re.compile(r"(?:^|[_/])cpu_(?:worker|executor|model_runner)|^cpu\.py")),
    ("cuda", re.compile(r"^cuda\.py|^gpu_(?:worker|executor)\.py|^cuda_communicator|^custom_all_reduce")),
)
# What the engine prints of itself when a step fails, since 0.9.2 and before.
_CONFIG_DUMPS = ("engine-config-dump", "v1-llm-engine-v-config")
_NEAR = "near "
ONE_SITE = "from 1 of 1 call sites"
FROM_PATH = "from a file name in the log"
"""How a release is known that only the name of a folder or file tells."""
_LOCAL_BUILD = lazy_pattern(r"\+(?:.*\.)?(cpu|rocm|xpu|tpu|neuron|gaudi|empty)")


def version_of(builder: RunBuilder) -> Value | None:
    """Return the vLLM version: the engine's own line first, the server's or the banner's else, then call sites."""
    for name in ("engine-config", "api-server-version", "banner-version", *_CONFIG_DUMPS):
        seen = builder.messages.get(name)
        event = seen.first[0] if seen else None
        if event and event.text("version") and parse_version(event.text("version")):
            version = event.text("version").removeprefix("v")
            return Value(version, "reported", (builder.evidence(event.record),))
    return _derived_version(builder)


def _installed_version(builder: RunBuilder) -> Value | None:
    """Return the release that an installer or the path of an installation names, where all of them name the same."""
    records = builder.keeper.records()[:400]
    found = {version: record for record in records if (version := installed_in(record.text[:400]))}
    if len(found) != 1:
        return None
    ((version, record),) = found.items()
    of_path = f"/vllm-{version}" in record.text
    note = FROM_PATH if of_path else "from an installer's line"
    return Value(version, "derived", (builder.evidence(record),), note)


def _derived_version(builder: RunBuilder) -> Value | None:
    if not builder.call_sites:
        return _installed_version(builder)
    from vllm_logdoctor.knowledge.call_sites import versions_for_call_sites

    sites = [(file.rsplit("/", 1)[-1], line, message) for (file, line), message in builder.call_sites.items()]
    found = versions_for_call_sites(sites, bracketed=builder.bracketed)
    if found is None:
        return _installed_version(builder)
    one_site = found.supporting == 1
    installed = _installed_version(builder) if one_site else None
    if installed is not None:
        return installed
    span = releases_span(found)
    # A call site that none of them explains is of a build between releases, and one site alone can't tell.
    near = _NEAR if found.supporting < found.tried or one_site else ""
    note = f"{near}{span}, from {found.supporting} of {found.tried} call sites"
    # Of few releases that one line tells, the earliest one: what it has, the others mostly have too.
    return Value(str(found.first if one_site else found.last), "derived", (), note)


def releases_span(found: FittingReleases) -> str:
    """Return the releases as a range, or one by one where the range has others: a line may move and come back."""
    known = known_versions()
    whole = known[known.index(found.first) : known.index(found.last) + 1]
    if len(found.releases) > 1 and whole == found.releases:
        return f"{found.first} to {found.last}"
    return ", ".join(map(str, found.releases))


def is_inferred(version: Value) -> bool:
    """Return True for a release that only the places of its messages in the source tell, not a line or a path."""
    return version.provenance == "derived" and not version.evidence


def release_ends(version: Value) -> tuple[str, ...]:
    """Return the release, or the first and the last of those that an inferred one may be; () where it is only near them.

    Example:
        >>> release_ends(Value("0.6.1", "derived", note="0.5.0 to 0.6.1, from 2 of 2 call sites"))
        ('0.5.0', '0.6.1')
        >>> release_ends(Value("0.6.1", "derived", note="near 0.6.1, from 2 of 3 call sites"))
        ()
    """
    releases, comma, _ = version.note.partition(", from ")
    if not comma or version.provenance != "derived":
        return (str(version.value),)
    ends = releases.replace(" to ", ", ").split(", ")
    return () if releases.startswith(_NEAR) else (*ends[:1], *ends[1:][-1:])


def release_words(version: Value) -> str:
    """Return the release, or the releases that an inferred one may be, in words.

    Example:
        >>> release_words(Value("0.6.1", "derived", note="0.5.0 to 0.6.1, from 2 of 2 call sites"))
        '0.5.0 to 0.6.1'
        >>> release_words(Value("0.8.5.post1", "derived", note="near 0.8.5 to 0.8.5.post1, from 1 of 1 call sites"))
        '0.8.5 or 0.8.5.post1'
        >>> release_words(Value("0.9.1", "derived", note="near 0.9.1, from 2 of 3 call sites"))
        'about 0.9.1'
        >>> release_words(Value("0.9.2", "derived", note="0.9.0, 0.9.0.1, 0.9.2, from 2 of 2 call sites"))
        '0.9.0, 0.9.0.1 or 0.9.2'
    """
    releases, comma, counts = version.note.partition(", from ")
    if not comma or version.provenance != "derived":
        return str(version.value)
    releases = releases.removeprefix(_NEAR)
    first, _, last = releases.partition(" to ")
    explained, _, tried = counts.removesuffix(" call sites").partition(" of ")
    about = "about " if explained != tried else ""
    if ", " in releases:
        return f"{about}{' or '.join(releases.rsplit(', ', 1))}"
    if not last or (about and _base(first) == _base(last)):
        return f"{about}{first}"
    numbers = release_number(first), release_number(last)
    neighbours = None not in numbers and (numbers[1] or 0) - (numbers[0] or 0) == 1
    return f"{about}{first} {'or' if neighbours else 'to'} {last}"


def _base(release: str) -> str:
    return release.partition(".post")[0]


def engine_generation(builder: RunBuilder, version: Value | None) -> tuple[str | None, tuple[Evidence, ...]]:
    """Return "V0" or "V1", or None where nothing tells, and the line that shows it where the release alone does not."""
    seen = builder.messages.get("engine-config")
    if seen:
        event = seen.first[0]
        site = event.record.call_site
        of_site = "V1" if site and site[0].endswith("core.py") else "V0"
        return event.text("generation") or of_site, (builder.evidence(event.record),)
    of_release = _generation_of(version)
    generation = _generation_in_lines(builder) or of_release
    if generation is None:
        old, new = builder.platform_hints["V0"], builder.platform_hints["V1"]
        printed = version if version is not None and version.provenance == "reported" else None
        if old != new:
            generation = "V0" if old > new else "V1"
        elif printed is not None and at_least(str(printed.value), "0.8.0") is False:
            return "V0", ()
    shown = builder.first_hints.get(generation or "") if generation != of_release else None
    return generation, (builder.evidence(shown),) if shown is not None else ()


def _generation_in_lines(builder: RunBuilder) -> str | None:
    """Return the generation that lines tell which only one of them writes."""
    if "engine-v0-fallback" in builder.messages:
        return "V0"
    dumped = any(name in builder.messages for name in _CONFIG_DUMPS)
    if dumped or any(process.role == "engine-core" for process in builder.processes):
        return "V1"
    if any("v1/" in file or file.endswith("v1/loggers.py") for file, _ in builder.call_sites):
        return "V1"
    throughput = builder.messages.get("throughput")
    if throughput:
        return "V0" if "Pending" in throughput.first[0].text("rest") else "V1"
    return None


def _generation_of(version: Value | None) -> str | None:
    """Return the generation that a release alone tells; a folder with a release in its name says nothing of what ran."""
    if version is None or version.note == FROM_PATH:
        return None
    if at_least(str(version.value), "0.11.0"):
        return "V1"
    return "V0" if at_least(str(version.value), "0.6.4") is False else None


def platform_of(builder: RunBuilder, version: Value | None) -> tuple[str | None, tuple[Evidence, ...]]:
    """Return the platform and what tells it; `device_config=cuda` alone is also what ROCm prints."""
    plugin = builder.messages.get("platform-plugin-activated")
    if plugin:
        name = plugin.first[0].text("plugin").lower()
        for word, platform in _PLUGINS.items():
            if word in name:
                return platform, (builder.evidence(plugin.first[0].record),)
    detected = builder.messages.get("platform-detected")
    if detected:
        name = detected.first[0].text("platform").lower()
        name = {"ascend": "npu", "amd": "rocm"}.get(name, name)
        if name in _PLATFORMS:
            return name, (builder.evidence(detected.first[0].record),)
    # device_config=cuda, cuda:1, or None where the platform is named later
    device = str(builder.stated.engine.get("device_config") or "").lower().partition(":")[0]
    for platform, files in _FILES:
        possible = platform in (device or platform, "rocm")
        if possible and any(files.search(file) for file, _ in builder.call_sites):
            if platform == "cuda" and _is_rocm(builder):
                return "rocm", _rocm_line(builder)
            return platform, ()
    local = _LOCAL_BUILD.search(str(version.value)) if version else None
    if local and local[1] in _PLATFORMS:
        return local[1], version.evidence if version else ()
    if device == "cpu" and not builder.platform_hints["cpu"] and (plugged := _hinted_accelerator(builder)):
        return plugged, ()  # Plugins of some accelerators tell vLLM that its device is the CPU.
    for platform in sorted(_PLATFORMS):
        if device == platform and not (platform == "cuda" and _is_rocm(builder)):
            return platform, builder.stated.engine_evidence
    hinted = _hinted_platform(builder)
    return hinted, _rocm_line(builder) if hinted == "rocm" else ()


def _is_rocm(builder: RunBuilder) -> bool:
    """Return whether words of ROCm are more than those of NVIDIA's: the engine calls both platforms cuda."""
    return builder.platform_hints["rocm"] > builder.platform_hints["cuda"]


def _rocm_line(builder: RunBuilder) -> tuple[Evidence, ...]:
    first = builder.first_hints.get("rocm")
    return () if first is None else (builder.evidence(first),)


def _hinted_platform(builder: RunBuilder) -> str | None:
    """Return the platform that words name; accelerators first, as their logs mention CUDA and CPUs as well."""
    hints = builder.platform_hints
    if accelerator := _hinted_accelerator(builder):
        return accelerator
    if hints["rocm"] and hints["rocm"] >= hints["cuda"]:
        return "rocm"
    if hints["no-platform"]:
        return None
    cuda = hints["cuda"] + hints["torch-cuda"]
    if hints["cpu"] and not cuda:
        return "cpu"
    if cuda:
        return "cuda"
    # A build for GPUs stops without a platform where none is found; one that goes on was built for the CPU.
    return "cpu" if hints["no-gpu"] and hints["no-cuda-runtime"] else None


def _hinted_accelerator(builder: RunBuilder) -> str | None:
    hints = builder.platform_hints
    plugged = ("npu", "hpu", "neuron", "tpu")
    cuda = hints["cuda"] + hints["torch-cuda"]
    return next((one for one in plugged if hints[one] and hints[one] >= cuda), None)


_OF_SERVER = frozenset((
    "api-server-version", "startup-complete", "server-process-started", "uvicorn-running", "server-starting", "startup-waiting",
    "uvicorn-stopping",
))  # fmt: skip
_OF_OFFLINE = frozenset(("offline-progress", "printed-answer", "training-progress"))
# The engine prints them for any program that calls it.
_OF_REQUESTS = frozenset(("request-received", "request-added"))
#   File "/home/me/bench.py", line 9, in <module>
_PROGRAM_FRAME = lazy_pattern(r'File "(?P<file>(?!<)[^"\n]{1,300}\.py)", line \d+, in <module>')
_ARGUMENTS_OF_SERVER = frozenset(("host", "port", "api_server_count", "served_model_name"))


def kind_of_run(builder: RunBuilder) -> Kind:
    """Return whether the run is a server or an offline engine."""
    if _OF_SERVER & builder.messages.keys() or builder.accesses:
        return "server"
    if any(process.role == "api-server" for process in builder.processes):
        return "server"
    arguments, complete = builder.stated.arguments, builder.stated.arguments_complete
    if "model_tag" in arguments or (complete and _ARGUMENTS_OF_SERVER & arguments.keys()):
        return "server"
    if _OF_REQUESTS & builder.messages.keys():
        return "unknown" if _is_inside_program(builder) else "server"
    called = "LLM(" in builder.stated.arguments_call
    if builder.stated.engine or called or _OF_OFFLINE & builder.messages.keys():
        # A program that starts API servers of its own.
        return "unknown" if has_api_server(builder) else "offline"
    return "unknown"


def has_api_server(builder: RunBuilder) -> bool:
    """Return whether the module of the API server logged."""
    modules = {file.rpartition("/")[2] for file, _ in builder.call_sites}
    return "api_server.py" in modules and "run_batch.py" not in modules


def _is_inside_program(builder: RunBuilder) -> bool:
    """Return whether a traceback begins in a program's own file, which calls the engine."""
    frames = (_PROGRAM_FRAME.search(record.text[:500]) for record in builder.keeper.records())
    return any(found is not None and owner_of(found["file"]) == PROGRAM for found in frames)


def is_same_model(one: str, other: str) -> bool:
    """Return whether two names may be those of one model: a path may end with a name of the hub."""
    first, second = (name.rstrip("/").rsplit("/", 1)[-1].lower() for name in (one, other))
    return first in second or second in first


def model_of(builder: RunBuilder) -> Value | None:
    """Return the model: the engine's line first, then arguments, banner, load messages."""
    stated = builder.stated
    explicit = stated.arguments.get("model") or stated.arguments.get("model_tag")
    reported = stated.engine.get("model")
    if (explicit and explicit in (reported, None)) or (explicit and not reported):
        return Value(explicit, "explicit", stated.arguments_evidence + stated.engine_evidence)
    if reported:
        return Value(reported, "reported", stated.engine_evidence)
    for name in ("banner-model", "api-server-version", "model-load-started"):
        seen = builder.messages.get(name)
        if seen and seen.first[0].text("model"):
            return Value(
                seen.first[0].text("model").strip(), "reported", (builder.evidence(seen.first[0].record),)
            )
    return None
