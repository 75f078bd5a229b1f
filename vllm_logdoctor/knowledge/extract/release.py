"""Facts about one release, as every extractor gives them and the merge takes them."""

from __future__ import annotations

from msgspec import Struct, field

from vllm_logdoctor.knowledge.store import Facts


class CallSite(Struct, frozen=True, order=True):
    """A log message of one source file: where it is called and what its text is.

    `base`: file name without folders, as a log shows it; `style`: plain, percent or brace, how its
    placeholders are written.
    """

    base: str
    template: str
    style: str


class ReleaseFacts(Struct, frozen=True):
    """Everything this room keeps about one release.

    Keys: `flags` "--max-num-seqs"; `variables` "VLLM_USE_V1"; `fields` "SchedulerConfig.max_num_seqs";
    `call_sites` give the lines at which a message is logged.
    """

    version: str
    flags: dict[str, Facts] = field(default_factory=dict)
    variables: dict[str, Facts] = field(default_factory=dict)
    fields: dict[str, Facts] = field(default_factory=dict)
    call_sites: dict[CallSite, tuple[int, ...]] = field(default_factory=dict)
