"""A launch in the forms in which people start servers: shell, YAML, PBS, Slurm, systemd, docker compose,
Kubernetes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import flag_exists
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.plan.command import escaped_unprintable, shell
from vllm_logdoctor.plan.devices import compose_devices, gpus, image, kubernetes_resources, notes, processors
from vllm_logdoctor.plan.launch import (
    MASK,
    Launch,
    SecretVariable,
    flag_words,
    open_environment,
    program,
    secret_variables,
)

Writer = Callable[[Launch], str]

# What begins with a digit, a sign or a point may be read as a number or a time: 0x1F, 1_000, .inf, 2026-01-01
_PLAIN_YAML = lazy_pattern(r"[A-Za-z_/][A-Za-z0-9_./:@+-]*\Z")
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"})


def render_launch(launch: Launch, form: str) -> str:
    """Return a launch in one form.

    Raises:
        KeyError: there is no such form.
    """
    return FORMS[form](launch)


def yaml_config(launch: Launch) -> str:
    """Return a file for `vllm serve --config FILE`: flag names without dashes; the model is in it.

    Example:
        >>> print(yaml_config(Launch("org/m", {"--max-num-seqs": 64, "--enforce-eager": True})))
        model: org/m
        max-num-seqs: 64
        enforce-eager: true
        >>> print(yaml_config(Launch("org/m", {"--enable-prefix-caching": False}, version="0.11.2")))
        model: org/m
        no-enable-prefix-caching: true
    """
    lines = [
        _masked_line("model", "VLLM_MODEL") if MASK in launch.model else f"model: {yaml_value(launch.model)}"
    ]
    if flag_exists("--config", launch.version) is False:
        lines.insert(
            0,
            f"# vLLM {launch.version} is not known to take --config: there the shell form is the one to use",
        )
    for name, value in launch.flags.items():
        if MASK in str(value):
            lines += [
                _masked_line(name, variable)
                for variable in secret_variables(replace(launch, model="", flags={name: value}))[:1]
            ]
            continue
        # vLLM reads "x: false" as "x not given": only "no-x: true" turns x off.
        if value is False:
            words = flag_words(replace(launch, flags={name: value}))
            lines += [f"{yaml_value(word[0].removeprefix('--'))}: true" for word in words]
            continue
        # vLLM hands a mapping on as Python writes it, and old releases a list too: a text survives everywhere.
        written = json.dumps(value) if isinstance(value, dict) else value
        if isinstance(value, list | tuple) and len(value) == 1:
            written = value[0]
        lines.append(f"{yaml_value(name.removeprefix('--'))}: {yaml_value(written)}")
    return "\n".join(lines)


def _masked_line(flag: str, variable: str) -> str:
    """Return the comment on a secret: a configuration file of vLLM reads no variables."""
    if variable in ("VLLM_API_KEY", "HF_TOKEN"):
        return f"# the log masks {flag}: set the variable {variable}, which vLLM reads by itself"
    return f'# the log masks {flag}: give it on the command line, {flag} "${variable}"'


def pbs(launch: Launch) -> str:
    """Return a PBS job script."""
    head = (
        "#!/bin/bash",
        "#PBS -N vllm",
        f"#PBS -l select=1:ncpus={processors(launch)}" + (f":ngpus={gpus(launch)}" if gpus(launch) else ""),
        "#PBS -j oe",
        "# queue, walltime and account are not in the log: add them",
        *notes(launch),
    )
    return _script(head, 'cd "$PBS_O_WORKDIR"', launch)


def slurm(launch: Launch) -> str:
    """Return a Slurm job script."""
    head = (
        "#!/bin/bash",
        "#SBATCH --job-name=vllm",
        "#SBATCH --nodes=1",
        *([f"#SBATCH --gpus={gpus(launch)}"] if gpus(launch) else []),
        f"#SBATCH --cpus-per-task={processors(launch)}",
        "#SBATCH --output=vllm-%j.log",
        "# partition, time and account are not in the log: add them",
        *notes(launch),
    )
    return _script(head, 'cd "$SLURM_SUBMIT_DIR"', launch)


def systemd(launch: Launch) -> str:
    """Return a systemd unit; systemd splits words itself, so that each is quoted for it."""
    words = " ".join(systemd_word(word) for word in _words(launch))
    # A dollar has no meaning in Environment=.
    environment = [
        f"Environment={systemd_word(f'{name}={value}').replace('$$', '$')}"
        for name, value in open_environment(launch).items()
    ]
    secrets = secret_variables(launch)
    if secrets:
        environment += [
            f"# holds what the log masks, mode 0600: {', '.join(secrets)}",
            "EnvironmentFile=/etc/vllm.env",
        ]
    lines = [
        "[Unit]",
        "Description=vLLM server",
        "After=network-online.target",
        "",
        "[Service]",
        *environment,
        f"ExecStart=/usr/bin/env {words}",
        "Restart=on-failure",
        "RestartSec=10",
        "TimeoutStopSec=120",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines)


def compose(launch: Launch) -> str:
    """Return a docker compose service; a secret comes from the environment of docker compose."""
    words = [
        f"${{{word}:?the log masks it}}" if isinstance(word, SecretVariable) else word.replace("$", "$$")
        for word in _words(launch)
    ]
    lines = [
        "services:",
        "  vllm:",
        f"    image: {image(launch)}",
        "    ipc: host",
        f"    entrypoint: {_quoted(words[:2])}",
        "    command:",
        *_items(words[2:], 6),
    ]
    secrets = secret_variables(launch)
    if launch.environment or secrets:
        lines += [
            "    environment:",
            *(
                f"      {name}: {yaml_value(value.replace('$', '$$'))}"
                for name, value in open_environment(launch).items()
            ),
            *(f'      {name}: "${{{name}:?the log masks it}}"' for name in secrets),
        ]
    lines += ["    ports:", f'      - "{_port(launch)}:{_port(launch)}"', *compose_devices(launch)]
    return "\n".join(lines)


def kubernetes(launch: Launch) -> str:
    """Return the container of a Kubernetes pod: image, args, env and cards; a secret comes from its env."""
    words = [
        f"$({word})" if isinstance(word, SecretVariable) else word.replace("$", "$$")
        for word in _words(launch)
    ]
    lines = [
        "- name: vllm",
        f"  image: {image(launch)}",
        f"  command: {_quoted(words[:2])}",
        "  args:",
        *_items(words[2:], 4),
    ]
    secrets = secret_variables(launch)
    if launch.environment or secrets:
        lines.append("  env:")
        for name, value in open_environment(launch).items():
            lines += [f"    - name: {name}", f"      value: {yaml_value(value.replace('$', '$$'))}"]
        for name in secrets:
            lines += [
                f"    - name: {name}",
                f"      valueFrom: {{secretKeyRef: {{name: vllm, key: {name}}}}}",
            ]
    lines += ["  ports:", f"    - containerPort: {_port(launch)}", *kubernetes_resources(launch)]
    if launch.cards > 1:
        lines += [
            "  # workers talk over /dev/shm; volumes of the pod: [{name: shm, emptyDir: {medium: Memory}}]",
            "  volumeMounts:",
            "    - name: shm",
            "      mountPath: /dev/shm",
        ]
    return "\n".join(lines)


def yaml_value(value: Any) -> str:
    """Return a value as YAML that reads back as the same value.

    Example:
        >>> yaml_value(64), yaml_value("no"), yaml_value("a: b"), yaml_value({"method": "ngram"})
        ('64', '"no"', '"a: b"', '{"method": "ngram"}')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, bool | int | float) or value is None:
        return _plain_yaml(value)
    if (
        isinstance(value, str)
        and _PLAIN_YAML.match(value)
        and value.lower() not in _YAML_WORDS
        and not value.endswith(":")
    ):
        return value
    return _quoted(value)


def _plain_yaml(value: bool | int | float | None) -> str:
    """Return a number or truth value; YAML 1.1 takes 5e-324 for text and 5.0e-324 for a number."""
    text = json.dumps(value)
    mantissa, exponent, rest = text.partition("e")
    return f"{mantissa}.0e{rest}" if exponent and "." not in mantissa and isinstance(value, float) else text


def _quoted(value: Any) -> str:
    """Return a value as YAML's flow form with every text in double quotes: what is not printed, as escapes that YAML reads."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(str(name))}: {_quoted(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if not isinstance(value, str):
        return (
            yaml_value(value)
            if isinstance(value, bool | int | float) or value is None
            else _quoted(str(value))
        )
    return '"' + escaped_unprintable(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def systemd_word(word: str) -> str:
    """Return a word as systemd reads it: quoted where needed, percent and dollar doubled.

    Example:
        >>> systemd_word("a b"), systemd_word("50%")
        ('"a b"', '50%%')
    """
    if isinstance(word, SecretVariable):
        return f"${{{word}}}"
    text = (
        word.replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("%", "%%")
        .replace("$", "$$")
        .replace("\n", "\\n")
    )
    text = escaped_unprintable(text)
    return f'"{text}"' if not text or re.search(r"[\s\"';\\]", text) else text


def _script(head: Sequence[str], change_directory: str, launch: Launch) -> str:
    command = shell(launch)
    return "\n".join([*head, "", "set -euo pipefail", change_directory, "", f"{command} > vllm.log 2>&1", ""])


def _words(launch: Launch) -> list[str]:
    return [*program(launch), *(word for words in flag_words(launch) for word in words)]


def _items(words: Sequence[str], indent: int) -> list[str]:
    # Arguments are texts for docker and Kubernetes: numbers are quoted too.
    return [f"{' ' * indent}- {_quoted(word)}" for word in words]


def _port(launch: Launch) -> int:
    port = launch.flags.get("--port")
    return port if isinstance(port, int) and not isinstance(port, bool) else 8000


FORMS: dict[str, Writer] = {
    "shell": shell,
    "yaml": yaml_config,
    "pbs": pbs,
    "slurm": slurm,
    "systemd": systemd,
    "compose": compose,
    "kubernetes": kubernetes,
}
