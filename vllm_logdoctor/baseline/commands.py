"""The commands that measure what a log does not print; they are printed, never run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from vllm_logdoctor.run.model import Run

METRICS = "curl -s localhost:{port}/metrics > metrics.txt"
PROFILE = (
    "curl -s -X POST localhost:{port}/start_profile; sleep 5; curl -s -X POST localhost:{port}/stop_profile  "
    '# server started with --profiler-config \'{{"profiler": "torch", "torch_profiler_dir": "/tmp/trace"}}\''
)
NSYS = "nsys profile --trace cuda,nvtx --delay 120 --duration 30 -o decode {launch} && nsys stats decode.nsys-rep > nsys.txt"
TRACE = f"{NSYS.partition(' && ')[0]} && nsys export --type sqlite decode.nsys-rep"
TOP = "top -H -b -n 2 -d 3 -w 200 > top-H.txt"
IDLE_TOP = "top -H -b -n 2 -d 3 -w 200 > top-H-idle.txt  # without requests"
CARD = "nvidia-smi -q > nvidia-smi-q.txt"
LINKS = "nvidia-smi topo -m > topo.txt"
MODULES = "sudo dmidecode -t memory > dmidecode.txt"
INTEL_MEMORY = "perf stat -a -o perf.txt -e uncore_imc/data_reads/,uncore_imc/data_writes/ sleep 10"
AMD_MEMORY = "perf stat -a -o perf.txt -M umc_mem_bandwidth sleep 10"
BANDWIDTH = "dcgmi dmon -e 1005 -c 60 > dcgmi.txt  # share of the memory bandwidth in use"
TRAFFIC = "ncu --metrics dram__bytes_read.sum,dram__bytes_write.sum -k regex:quant {launch} > ncu.txt"
STACKS = "py-spy record --pid $(pgrep -f VLLM::EngineCor | head -1) --duration 30 --format raw -o engine-stacks.txt"
LOG = "VLLM_LOGGING_LEVEL=INFO {launch} > vllm.log 2>&1"
ENVIRONMENT = "vllm collect-env > collect-env.txt"
OTHERS = "logdoctor compare vllm.log llama-bench.md sglang.log"
BENCH = "llama-benchy --tg 32 --url http://localhost:{port} > llama-benchy.md"
AMD = "amd-smi metric --json > amd-smi.json"
KERNEL_LOG = "dmesg -T | tail -200 > dmesg.txt"


def filled_command(command: str, run: Run | None) -> str:
    """Return a command for the launch of a run: its port, and how it was started.

    Example:
        >>> filled_command(METRICS, None)
        'curl -s localhost:8000/metrics > metrics.txt'
    """
    port = run.arguments.get("port") if run is not None else None
    model = str(run.model.value) if run is not None and run.model is not None else "MODEL"
    return command.format(
        port=port if isinstance(port, int) else 8000, launch=f"vllm serve {shlex.quote(model)}"
    )


def collecting(
    run: Run | None, environ: Mapping[str, str], seconds: int, folder: str, log: str = "vllm.log"
) -> Iterator[str]:
    """Yield the lines of a script that gathers everything for this launch in about a minute.

    Args:
        run: the run of the log, or None where no log is given.
        environ: variables, which tell the scheduler.
        seconds: how long to watch.
        folder: where the files go.
        log: the log, as seen from where the script starts.
    """
    yield "#!/bin/sh"
    yield "# Gathers what the log of vLLM does not print. Read it before you run it: logdoctor runs nothing."
    yield f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)}"
    on_node = _on_node(environ)
    if on_node:
        yield f"# From outside of the job put in front of each command: {on_node}"
    yield "# 1. before and after: what the server counted"
    yield filled_command(METRICS, run).replace("metrics.txt", "metrics-before.txt")
    yield "# 2. while it decodes"
    yield filled_command(TOP, run)
    yield from _of_cards(run, seconds)
    yield filled_command(PROFILE, run)
    yield "cp -r /tmp/trace . 2>/dev/null"
    stacks = max(5, seconds - 50)
    yield STACKS.replace("--duration 30", f"--duration {stacks}")
    yield f"sleep {max(1, seconds - 20 - stacks)}"
    yield filled_command(METRICS, run).replace("metrics.txt", "metrics-after.txt")
    yield "# 3. the machine"
    yield from (
        "lscpu > lscpu.txt",
        "free -m > free.txt",
        "numactl -H > numactl.txt",
        ENVIRONMENT,
        KERNEL_LOG,
    )
    yield from _of_scheduler(environ)
    yield "# 4. read it all"
    given = shlex.quote(log) if log.startswith("/") else f'"$OLDPWD"/{shlex.quote(log)}'
    yield f"logdoctor analyze {given} --with .; logdoctor baseline {given} --with . -o baseline.md"


def _of_cards(run: Run | None, seconds: int) -> Iterator[str]:
    platform = run.platform if run is not None else None
    if platform in ("cuda", None):
        yield from (CARD, LINKS, f"timeout {min(seconds, 20)} nvidia-smi dmon -s pucm > dmon.txt")
        yield BANDWIDTH.replace("-c 60", "-c 5")
    elif platform == "cpu":
        yield INTEL_MEMORY.replace("sleep 10", "sleep 5")
    elif platform == "rocm":
        yield AMD
    elif platform == "npu":
        yield "npu-smi info > npu-smi.txt"


def _on_node(environ: Mapping[str, str]) -> str:
    if "SLURM_JOB_ID" in environ:
        return f"srun --jobid {shlex.quote(environ['SLURM_JOB_ID'])} --overlap"
    if "PBS_JOBID" in environ:
        return "ssh NODE (from `qstat -n " + shlex.quote(environ["PBS_JOBID"]) + "`)"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubectl exec POD --"
    return ""


def _of_scheduler(environ: Mapping[str, str]) -> Iterator[str]:
    if "SLURM_JOB_ID" in environ:
        job = shlex.quote(environ["SLURM_JOB_ID"])
        yield f"sacct -j {job} --parsable2 --format JobID,State,ExitCode,Elapsed,Timelimit,MaxRSS,ReqMem > sacct.txt"
    elif "PBS_JOBID" in environ:
        yield f"qstat -xf {shlex.quote(environ['PBS_JOBID'])} > qstat.txt"
    elif "KUBERNETES_SERVICE_HOST" in environ:
        yield 'kubectl describe pod "$HOSTNAME" > describe.txt; kubectl get events > events.txt'
