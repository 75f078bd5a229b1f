"""A launch as shell."""

from __future__ import annotations

import shlex

from vllm_logdoctor.plan.launch import (
    Launch,
    SecretVariable,
    flag_words,
    flags_read_from_environment,
    open_environment,
    program,
    secret_variables,
)

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
            *(f"{name}={shell_word(value)}" for name, value in open_environment(launch).items()),
            *map(shell_word, program(launch)),
        ]
    )
    own = {variable: flag for flag, variable in flags_read_from_environment(launch).items()}
    needed = [
        f': "${{{name}:?the log masks it: set it first, vLLM reads it without {own[name]}}}" && export {name}\n'
        if name in own
        else f': "${{{name}:?the log masks it: set it first}}"\n'
        for name in secret_variables(launch)
    ]
    lines, line = ["".join(needed) + head], ""
    for words in flag_words(launch):
        piece = " ".join(map(shell_word, words))
        if line and len(line) + len(piece) + 1 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {piece}" if line else piece
    if line:
        lines.append(line)
    return " \\\n  ".join(lines)


def shell_word(word: str) -> str:
    r"""Return a word that the shell takes as it is; the variable of a secret stays one.

    Characters that act on a terminal are written as bash's escapes: nothing acts where the command is read.

    Example:
        >>> shell_word("a b"), shell_word(SecretVariable("VLLM_API_KEY")), shell_word("$HOME")
        ("'a b'", '"$VLLM_API_KEY"', "'$HOME'")
        >>> print(shell_word("a\u202eb"))
        $'a\u202eb'
    """
    if isinstance(word, SecretVariable):
        return f'"${word}"'
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{escaped_unprintable(escaped)}'"


def escaped_unprintable(text: str) -> str:
    r"""Return text in which characters that are not printable become escapes that bash and systemd share.

    Example:
        >>> print(escaped_unprintable("a\x1bb"))
        a\u001bb
    """
    return "".join(character if character.isprintable() else _escape(ord(character)) for character in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
