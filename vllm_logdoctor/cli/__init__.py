"""Command line: thin; every command calls one function of a room and writes what it returns."""

from vllm_logdoctor.cli.start import main

__all__ = ["main"]
