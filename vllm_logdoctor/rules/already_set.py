"""Changes that a run has already: advice that would do nothing."""

from __future__ import annotations

from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Run


def already_set(run: Run, change: Change) -> bool:
    """Return whether the launch of a run has what a change asks for.

    A flag counts where the user gave it; a variable where the log shows that it was set.

    Example:
        >>> already_set(Run(), Change("--max-num-seqs", "flag", None, 64))
        False
    """
    if change.after is None or change.kind not in ("flag", "env"):
        return False
    if change.kind == "env":
        shown = run.environment.get(change.knob)
        return shown is not None and str(shown.value) == str(change.after)
    negated = change.knob.startswith("--no-")
    name = change.knob.removeprefix("--no-" if negated else "--").replace("-", "_")
    value = run.config.get(name)
    wanted = not change.after if negated else change.after
    return value is not None and value.provenance == "explicit" and bool(value.value == wanted)
