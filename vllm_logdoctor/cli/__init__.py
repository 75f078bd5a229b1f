"""The command line: each command calls one function of another package and writes what it returns."""

from vllm_logdoctor.cli.start import main

__all__ = ["main"]
