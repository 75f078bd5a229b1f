"""Sizes of CUDA graphs follow max_num_seqs: sizes that a launch fixes leave batches of more requests without a graph."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.graphs import GRAPH_SIZES, largest_size
from vllm_logdoctor.run.model import Run

_SEQUENCES = "--max-num-seqs"
_NOTE = "vLLM then captures sizes for the new max_num_seqs"


def with_capture_sizes(run: Run, items: Sequence[PlannedChange]) -> list[PlannedChange]:
    """Return the changes with those that drop fixed capture sizes which a raised max_num_seqs leaves too small."""
    raised = next((item for item in items if item.change.knob == _SEQUENCES), None)
    wanted = raised.change.after if raised else None
    if raised is None or not isinstance(wanted, int):
        return list(items)
    planned = {item.change.knob for item in items}
    follow = [
        PlannedChange(change, raised.findings)
        for change in _fixed_sizes(run, wanted)
        if change.knob not in planned
    ]
    position = list(items).index(raised) + 1
    return [*items[:position], *follow, *items[position:]]


def _fixed_sizes(run: Run, wanted: int) -> list[Change]:
    """Return changes that drop sizes, all smaller than `wanted`, which the user fixed."""
    found = []
    for name in GRAPH_SIZES:
        value = run.arguments.get(name)
        if value and largest_size(value) < wanted:
            found.append(Change("--" + name.replace("_", "-"), "flag", value, None, "needs-test", _NOTE))
    config = run.arguments.get("compilation_config")
    if isinstance(config, dict):
        small = [name for name in GRAPH_SIZES if config.get(name) and largest_size(config[name]) < wanted]
        if small:
            rest = {name: value for name, value in config.items() if name not in small and value is not None}
            found.append(Change("--compilation-config", "flag", config, rest or None, "needs-test", _NOTE))
    return found
