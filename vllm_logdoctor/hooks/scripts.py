"""Script texts for PBS and Slurm, filled in for this installation."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError

KINDS = {"pbs": ("job", "afterany", "epilogue"), "slurm": ("job", "afterany", "task-epilog")}
"""Batch system -> kinds of script, the recommended one first."""

_TEMPLATES = {
    ("pbs", "job"): "job_fragment.sh.in",
    ("slurm", "job"): "job_fragment.sh.in",
    ("pbs", "afterany"): "pbs_afterany.sh.in",
    ("slurm", "afterany"): "slurm_afterany.sh.in",
    ("pbs", "epilogue"): "pbs_epilogue.py.in",
    ("slurm", "task-epilog"): "slurm_task_epilog.sh.in",
}
_KILL_DELAY = {
    "pbs": "A job over its walltime has 10 s left (kill_delay): the afterany job reports on those.",
    "slurm": "A job over its time limit has 30 s left (KillWait): the afterany job reports on those.",
}
_JOBS_WORDS = {
    False: "jobs submitted with LOGDOCTOR=1 in their environment, on no other",
    True: "every job whose output names vLLM, unless LOGDOCTOR=0 is in its environment",
}
_HOOK_ALARM = 30
_HOOK_SECONDS = 20
_MARGIN = 10


class ScriptValues(Struct, frozen=True):
    """What the scripts are filled in with.

    Attributes:
        logdoctor: path of the command.
        seconds: time limit of the analysis.
        memory_mib: its limit of address space.
        all_jobs: administrator's scripts report on every job of vLLM, not on those alone that ask for it.
    """

    logdoctor: str
    seconds: int = 60
    memory_mib: int = 2048
    all_jobs: bool = False


def script(system: str, kind: str, settings: ScriptValues) -> str:
    """Return the text of a script.

    Args:
        system: "pbs" or "slurm".
        kind: one of `KINDS[system]`.
        settings: what to fill in.

    Raises:
        LogdoctorError: no such kind (exit code 2).
    """
    if kind not in KINDS[system]:
        raise LogdoctorError(f"unknown kind {kind!r}; choose one of {', '.join(KINDS[system])}", 2)
    text = _template(_TEMPLATES[system, kind]).replace("@BODY@\n", _template("afterany_body.sh.in"))
    for name, value in _values(system, kind, settings).items():
        text = text.replace(f"@{name}@", value)
    return text


def installed_command() -> str:
    """Return the path of the logdoctor command of this installation."""
    beside = Path(sys.executable).parent / "logdoctor"
    return str(beside) if beside.exists() else shutil.which("logdoctor") or str(beside)


def _values(system: str, kind: str, settings: ScriptValues) -> dict[str, str]:
    seconds = (
        min(settings.seconds, _HOOK_SECONDS) if kind in ("epilogue", "task-epilog") else settings.seconds
    )
    scontrol = shutil.which("scontrol")
    return {
        "LOGDOCTOR": shlex.quote(settings.logdoctor),
        "LOGDOCTOR_PYTHON": repr(settings.logdoctor),
        "SECONDS": str(seconds),
        "OUTER_SECONDS": str(seconds + (2 if kind == "task-epilog" else _MARGIN)),
        "ALARM": str(_HOOK_ALARM),
        "MEMORY_BYTES": str(settings.memory_mib << 20),
        "JOB_MEMORY_MIB": str(settings.memory_mib + 256),
        "OUTPUT_BYTES": str(64 << 20),
        "KILL_DELAY": _KILL_DELAY[system],
        "JOBS_WORDS": _JOBS_WORDS[settings.all_jobs],
        "JOBS_DEFAULT": "1" if settings.all_jobs else "0",
        "SLURM_BIN": str(Path(scontrol).parent) if scontrol else "/opt/slurm/bin",
    }


def _template(name: str) -> str:
    return (files("vllm_logdoctor.hooks") / "templates" / name).read_text("utf-8")
