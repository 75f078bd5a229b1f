"""Ids of the rules of last resort, to which code refers by name."""

from __future__ import annotations

UNKNOWN = "unclassified-failure"
NOT_IN_LOG = "cause-not-in-log"
CODE = "engine-code-bug"
