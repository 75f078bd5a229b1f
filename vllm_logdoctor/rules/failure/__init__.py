"""Failure findings: the root cause of a run that broke, what followed from it, and what to change."""

from vllm_logdoctor.rules.failure.judge import broke, failures_of, speaks_of_vllm

__all__ = ["broke", "failures_of", "speaks_of_vllm"]
