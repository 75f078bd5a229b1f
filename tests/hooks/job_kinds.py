"""What each way of reporting gives for each kind of job, on the real PBS of this host: prints the table of docs/how-to/pbs.md.

job_kinds.py LOGDOCTOR DIRECTORY     as an ordinary user; a PBS manager has installed the printed epilogue hook
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from hook_samples import SERVER_LOG

SECONDS = 200
SHELLS = ("bash", "dash", "zsh", "ksh")
ENDS = {
    "exit 0": "exit 0",
    "exit 7": "exit 7",
    "SIGKILL": "kill -KILL $$",
    "qdel": "sleep 60",
    "walltime": "sleep 60",
}
# Kinds of output for the hook: name, options of qsub.
OUTPUTS = {
    "joined": ["-j", "oe"],
    "apart": [],
    "-k oe": ["-k", "oe"],
    "-k oed": ["-k", "oed"],
    "-o elsewhere": ["-j", "oe", "-o", "elsewhere/out {}.txt"],
    "sandbox": ["-W", "sandbox=private"],
    "array": ["-J", "1-2"],
}


def main(logdoctor: str, directory: str) -> None:
    """Submit all jobs, wait for their ends and print the table."""
    work = Path(directory).resolve()
    (work / "elsewhere").mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    (work / "vllm.txt").write_text(SERVER_LOG)
    jobs = [*_fragments(logdoctor), *_hooked(), *_followed(logdoctor)]
    for kind, job in jobs:
        if "qdel" in kind:
            _wait_for(job, "RFX")
            time.sleep(3)
            subprocess.run(["qdel", job], check=False)
    print("| kind of job | Exit_status | lines | what the first line says |\n|---|---|---|---|")
    for kind, job in jobs:
        print(_row(kind, job, work))


def _fragments(logdoctor: str) -> list[tuple[str, str]]:
    fragment = subprocess.run([logdoctor, "hook", "pbs"], capture_output=True, text=True, check=True).stdout
    fragment = re.sub(r"^(\s+)\S+ hook run", rf"\1{logdoctor} hook run", fragment, flags=re.MULTILINE)
    jobs = []
    for shell in SHELLS:
        for end, line in ENDS.items():
            text = f'cd "$PBS_O_WORKDIR"\nexport LOGDOCTOR_LOG=own.$PBS_JOBID.log\n{fragment}\ncat vllm.txt > "$LOGDOCTOR_LOG"\n{line}\n'
            limit = ["-l", "walltime=4"] if end == "walltime" else []
            jobs.append(
                (
                    f"fragment, own log, {shell}: {end}",
                    _submit(text, ["-j", "oe", *limit], shell),
                )
            )
    return jobs


def _hooked() -> list[tuple[str, str]]:
    text = 'cat "$PBS_O_WORKDIR/vllm.txt"\n'
    jobs = [
        (f"hook, {name}: exit 7", _submit(f"{text}exit 7\n", ["-v", "LOGDOCTOR=1", *options]))
        for name, options in OUTPUTS.items()
    ]
    for end, line in ENDS.items():
        limit = ["-l", "walltime=4"] if end == "walltime" else []
        jobs.append(
            (f"hook, joined: {end}", _submit(text + line + "\n", ["-v", "LOGDOCTOR=1", "-j", "oe", *limit]))
        )
    own = f'cd "$PBS_O_WORKDIR"\n{text.strip()} > own.log\nsleep 60\n'
    jobs.append(
        (
            "hook, own log: walltime",
            _submit(own, ["-v", "LOGDOCTOR=1,LOGDOCTOR_LOG=own.log", "-j", "oe", "-l", "walltime=4"]),
        )
    )
    return jobs


def _followed(logdoctor: str) -> list[tuple[str, str]]:
    text = subprocess.run(
        [logdoctor, "hook", "pbs", "--kind", "afterany", "--command", logdoctor],
        capture_output=True,
        text=True,
        check=True,
    )
    Path("afterany.sh").write_text(text.stdout)
    body = 'cat "$PBS_O_WORKDIR/vllm.txt"\n'
    jobs = []
    for name, options in OUTPUTS.items():
        first = _submit(f"{body}exit 7\n", options)
        jobs.append((f"afterany, {name}: exit 7", _after(first)))
    first = _submit(f"{body}sleep 60\n", ["-j", "oe", "-l", "walltime=4"])
    jobs.append(("afterany, joined: walltime", _after(first)))
    return jobs


def _after(job: str) -> str:
    options = [
        "-W",
        f"depend=afterany:{job}",
        "-v",
        f"LOGDOCTOR_JOB={job}",
        "-l",
        "select=1:ncpus=1",
        "afterany.sh",
    ]
    return _printed(["qsub", *options])


def _submit(text: str, options: list[str], shell: str = "bash") -> str:
    path = Path(f"job{time.monotonic_ns()}.sh")
    path.write_text(f"#!/bin/{shell}\n{text}")
    options = [
        str(Path(one.format(path.stem)).resolve()) if one.startswith("elsewhere") else one for one in options
    ]
    return _printed(["qsub", "-N", "kind", *options, str(path)])


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _row(kind: str, job: str, work: Path) -> str:
    job = job.replace("[]", "[1]")
    text = _wait_for(job, "FX")
    status = re.search(r"Exit_status = (-?\d+)", text)
    output = re.search(r"Output_Path = [^:]*:(.+)", text)
    places = [Path(output[1]), Path.home() / Path(output[1]).name] if output else []
    said = next((place.read_text(errors="replace") for place in places if place.is_file()), "")
    lines = [line for line in said.splitlines() if line.startswith("logdoctor: ")]
    first = (
        re.sub(r"^logdoctor: (?:vLLM \S+, \S+: )?", "", lines[0]).partition(";")[0].partition(": ")[0]
        if lines
        else ""
    )
    return f"| {kind} | {status[1] if status else 'none'} | {len(lines)} | {first} |"


def _wait_for(job: str, states: str) -> str:
    """Return what PBS knows of a job once it is in one of some states, or after the time limit."""
    deadline = time.monotonic() + SECONDS
    while True:
        asked = subprocess.run(["qstat", "-xf", job], capture_output=True, text=True, check=False)
        text = asked.stdout.replace("\n\t", "")
        if re.search(f"job_state = [{states}]", text) or time.monotonic() > deadline:
            return text
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
