"""What each way of reporting gives for each kind of job, on the real batch system of this host: the table of docs/reference/job-kinds.md.

job_kinds.py pbs|slurm LOGDOCTOR DIRECTORY [--user USER] [--only WORDS]

As root it submits as USER and simulates what only root can (a node that fails); as an ordinary user it leaves that out. The printed
epilogue hook (PBS) or TaskEpilog (Slurm) is installed before.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from batch_systems import BatchSystem, Pbs, Slurm
from hook_samples import CRASHED_LOG, SERVER_LOG, STOPPED_LOG

SYSTEMS: dict[str, type[BatchSystem]] = {"pbs": Pbs, "slurm": Slurm}
SHELLS = ("bash", "dash", "zsh", "ksh")
FILL_MEMORY = "/usr/bin/python3 -c \"x = b'x' * (600 << 20); import time; time.sleep(60)\""
ENDS = {
    "exit 0": "exit 0",
    "exit 7": "exit 7",
    "SIGKILL": "kill -KILL $$",
    "deleted": "/bin/sleep 60",
    "time limit": "/bin/sleep 200",
    "memory limit": FILL_MEMORY,
    "requeued": "/bin/sleep 60",
    "node failure": "/bin/sleep 60",
}
ACTED = ("deleted", "requeued", "node failure")
# Where vLLM writes, and the line that writes what a server wrote.
LOGS = {
    "own log": ("own.{}.log", 'cat vllm.txt >>"$LOGDOCTOR_LOG"'),
    "several logs": ("nodes.{}", 'mkdir -p "$LOGDOCTOR_LOG"; cp node*.log "$LOGDOCTOR_LOG"'),
    "": ("", "cat vllm.txt"),
}


class Kind(NamedTuple):
    """A kind of job: how it is reported on, how it ends, its shell, where its log and its output are."""

    way: str
    end: str
    shell: str = "bash"
    log: str = ""
    output: str = "joined"
    spaces: bool = False

    def words(self) -> str:
        """Return the kind as the first cell of its row."""
        shell = self.shell if self.way == "fragment" else ""
        spaces = "spaces in paths" if self.spaces else ""
        return f"{', '.join(filter(None, (self.way, shell, self.log or f'output {self.output}', spaces)))}: {self.end}"


def kinds(system: BatchSystem) -> Iterator[Kind]:
    """Yield the kinds of jobs of the table."""
    for shell in SHELLS:
        for end in ("exit 0", "exit 7", "SIGKILL", "deleted", "time limit"):
            yield Kind("fragment", end, shell, "own log")
    for way in ("fragment", system.hook, "afterany"):
        yield from (Kind(way, "exit 7", output=output) for output in system.outputs)
        yield from (Kind(way, "exit 7", log=log) for log in ("own log", "several logs"))
        yield Kind(way, "exit 7", spaces=True)
        ends = [end for end in ENDS if end != "exit 7"]
        yield from (Kind(way, end) for end in ends)
        yield Kind(way, "time limit", log="own log")
        yield Kind(way, "time limit", output="apart")


def submitted(system: BatchSystem, kind: Kind, number: int) -> tuple[str, str]:
    """Submit one job; return its id, and that of the job that reports on it or ""."""
    folder = system.folder / "with spaces" if kind.spaces else system.folder
    log, fill = LOGS[kind.log]
    log = log.format(number)
    lines = [f"#!/bin/{kind.shell}", f'cd "{folder}"', *([f"export LOGDOCTOR_LOG={log}"] if log else [])]
    if kind.way == "fragment":
        lines.append(system.fragment)
    ends_at_once = f"[ ! -e lived.{number} ] || exit 7; : >lived.{number}"
    lines += [fill, *([ends_at_once] if kind.end == "requeued" else []), ENDS[kind.end]]
    script = folder / f"job{number}.sh"
    script.write_text("\n".join([*lines, ""]))
    asked = {"LOGDOCTOR": "1", **({"LOGDOCTOR_LOG": log} if log else {})} if kind.way == system.hook else {}
    options = [*system.outputs[kind.output], *system.limits.get(kind.end, ())]
    job = system.submit(
        script, [one.replace("{}", f"{folder}/else where/out {number}.txt") for one in options], asked
    )
    return job, system.follow(job, f"{folder}/{log}" if log else "", folder) if kind.way == "afterany" else ""


def row(system: BatchSystem, kind: Kind, job: str, reporter: str) -> str:
    """Wait for a job, and for the one that reports on it; return its row of the table."""
    status, outputs = system.ended(job)
    if reporter:
        _, outputs = system.ended(reporter)
    texts = [place.read_text(errors="replace") for place in outputs if place.is_file()]
    lines = [line for text in texts[:2] for line in text.splitlines() if line.startswith("logdoctor: ")]
    said = re.sub(r"^logdoctor: (?:vLLM \S+, \S+: )?", "", lines[0]) if lines else ""
    first = (
        said.partition(";")[0] if said.startswith("no report") else said.partition(";")[0].partition(": ")[0]
    )
    first = re.sub(r"(?:/\S+/|\bjob |own\.|nodes\.)[\w.]*\d+[\w.]*", "...", first)
    return f"| {kind.words()} | {status} | {len(lines)} | {first} |"


def prepare(folder: Path) -> None:
    """Make the directory of submission, and one with spaces in its name, with what servers wrote."""
    for place in (folder, folder / "with spaces"):
        (place / "else where").mkdir(parents=True, exist_ok=True)
        for path in (place, place / "else where"):
            path.chmod(0o777)
        (place / "vllm.txt").write_text(SERVER_LOG)
        (place / "node1.log").write_text(STOPPED_LOG)
        (place / "node2.log").write_text(CRASHED_LOG)


def table(system: BatchSystem, chosen: Sequence[Kind]) -> Iterator[str]:
    """Submit all jobs, bring about their ends, and yield the rows."""
    alone = [kind for kind in chosen if kind.end == "node failure"]
    for together in ([kind for kind in chosen if kind not in alone], *([kind] for kind in alone)):
        jobs = [(kind, *submitted(system, kind, chosen.index(kind) + 1)) for kind in together]
        for kind, job, _ in jobs:
            if kind.end in ACTED:
                system.act(job, kind.end)
        for kind, job, reporter in jobs:
            yield row(system, kind, job, reporter)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("logdoctor")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--user", default="")
    parser.add_argument("--only", default="", help="regular expression for the first cell")
    options = parser.parse_args()
    folder = options.directory.resolve()
    prepare(folder)
    system = SYSTEMS[options.system](options.logdoctor, folder, options.user)
    chosen = [kind for kind in dict.fromkeys(kinds(system)) if re.search(options.only, kind.words())]
    if os.geteuid() != 0:
        chosen = [kind for kind in chosen if kind.end != "node failure"]
    chosen = [kind for kind in chosen if shutil.which(kind.shell)]
    print(
        f"| kind of job | {system.status_words} | lines | what the first line says |\n|---|---|---|---|",
        flush=True,
    )
    for line in table(system, chosen):
        print(line, flush=True)


if __name__ == "__main__":
    main()
