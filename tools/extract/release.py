"""Facts about one release, as every extractor returns them and the merge takes them."""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec import Struct, field

from vllm_logdoctor.knowledge.store import Facts


class PrintedMessage(Struct, frozen=True, order=True):
    """A message template of one source file.

    Attributes:
        module: path of the file inside the package.
        template: text with placeholders.
        style: plain, percent or brace, how the placeholders are written.
        level: level of the log; "warn" for the warnings module, "print", or "raise" for an exception.
    """

    module: str
    template: str
    style: str
    level: str

    @property
    def base(self) -> str:
        """Name of the file without folders, as a log shows it."""
        return PurePosixPath(self.module).name


class ReleaseFacts(Struct, frozen=True):
    """All that is extracted from one release.

    Keys: `flags` "--max-num-seqs"; `variables` "VLLM_USE_V1"; `fields` "SchedulerConfig.max_num_seqs";
    `messages` give the lines at which a message is logged, where they are known.
    """

    version: str
    flags: dict[str, Facts] = field(default_factory=dict)
    variables: dict[str, Facts] = field(default_factory=dict)
    fields: dict[str, Facts] = field(default_factory=dict)
    messages: dict[PrintedMessage, tuple[int, ...]] = field(default_factory=dict)
