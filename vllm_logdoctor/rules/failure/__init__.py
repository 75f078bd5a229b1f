"""Failure findings: the root cause of a run that broke, what followed from it, and what to change."""

from vllm_logdoctor.rules.failure.judge import failures_of, shows_error, speaks_of_vllm

__all__ = ["failures_of", "shows_error", "speaks_of_vllm"]
