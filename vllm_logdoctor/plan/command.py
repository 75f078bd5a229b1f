"""A launch as shell."""

from __future__ import annotations

import re
import shlex

from vllm_logdoctor.plan.launch import Launch, flag_words, program

# $VLLM_API_KEY stands for a secret that the log masks: it must stay a variable.
_VARIABLE = re.compile(r"\$VLLM_[A-Z_]+\Z")
WIDTH = 100


def shell(launch: Launch) -> str:
    """Return the launch as one shell command, a group of flags on each line.

    Example:
        >>> print(shell(Launch("org/a model", {"--max-num-seqs": 64}, {}, "0.11.2")).replace(chr(92), "|"))
        vllm serve 'org/a model' |
          --max-num-seqs 64
    """
    head = " ".join(
        [
            *(f"{name}={quoted(value)}" for name, value in launch.environment.items()),
            *map(quoted, program(launch)),
        ]
    )
    lines, line = [head], ""
    for words in flag_words(launch):
        piece = " ".join(map(quoted, words))
        if line and len(line) + len(piece) + 1 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {piece}" if line else piece
    if line:
        lines.append(line)
    return " \\\n  ".join(lines)


def quoted(word: str) -> str:
    """Return a word that the shell takes as it is; the variable of a secret stays one.

    Example:
        >>> quoted("a b"), quoted("$VLLM_API_KEY"), quoted("$HOME")
        ("'a b'", '"$VLLM_API_KEY"', "'$HOME'")
    """
    return f'"{word}"' if _VARIABLE.match(word) else shlex.quote(word)
