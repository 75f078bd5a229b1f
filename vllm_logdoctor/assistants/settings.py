"""Return whether a setting that a model proposes exists in the release, is new, and passes the plan's checks."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.assistants.excerpt import Places
from vllm_logdoctor.assistants.question import ChangeIn
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.flags import Flag, flag_at, flag_history
from vllm_logdoctor.knowledge.variables import variable_known, variable_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.plan.feasible import obstacle
from vllm_logdoctor.plan.planned import planned_run
from vllm_logdoctor.plan.whatif import check_setting, parse_value
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.opinion import ProposedChange
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Change

_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9_]{2,80}\Z")
_FLAG = lazy_pattern(r"-{0,2}[a-zA-Z][a-zA-Z0-9_.-]{0,80}\Z")
# What runs code of strangers, opens the machine, or takes a lock away: a line of a log must not be the reason for it.
_UNSAFE = frozenset(
    {
        "--trust-remote-code", "--allowed-local-media-path", "--allowed-media-domains", "--enable-sleep-mode",
        "--api-key", "--allow-credentials", "--allowed-origins", "--host", "--uds", "--ssl-cert-reqs",
        "--worker-extension-cls", "--worker-cls", "--middleware", "--tool-parser-plugin", "--reasoning-parser-plugin",
        "--logits-processors", "--load-format", "--hf-token", "--download-dir", "--model", "--tokenizer", "--code-revision",
        "--config", "--chat-template", "--trust-request-chat-template", "--enable-log-requests", "--enable-log-outputs",
        "VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_PLUGINS",
        "VLLM_API_KEY", "VLLM_CONFIGURE_LOGGING", "VLLM_LOGGING_CONFIG_PATH", "VLLM_TORCH_PROFILER_DIR",
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "VLLM_SKIP_P2P_CHECK", "VLLM_USE_MODELSCOPE", "VLLM_MODEL_REDIRECT_PATH",
    }
)  # fmt: skip
_ALREADY = "already set to that"


class SettingChecks:
    """Checks the changes that are proposed for one run."""

    def __init__(self, diagnosis: Diagnosis, places: Places) -> None:
        self._diagnosis = diagnosis
        self._places = places
        version = diagnosis.run.version
        self._version = str(version.value) if version else None

    def checked(self, proposed: ChangeIn) -> ProposedChange:
        """Return a change with the reason why it is refused, if it is."""
        name, value = proposed.setting.strip(), " ".join(visible(proposed.value).split())[:80]
        knob = name if _VARIABLE.match(name) else f"--{name.lstrip('-').replace('_', '-')}"
        try:
            reason = self._refused(name, knob, value)
        except LogdoctorError as error:
            reason = str(error)
        except Exception:
            # The plan's formulas are made for values that a rule chose: what they can't compute is not accepted.
            reason = "it can't be checked with the figures of this log"
        return ProposedChange(visible(knob)[:80], value, not reason, reason)

    def _refused(self, name: str, knob: str, value: str) -> str:
        if not (_VARIABLE.match(name) or _FLAG.match(name)):
            return "no name of a setting"
        if knob in _UNSAFE:
            return "weakens security or changes what is served: never on the word of a model"
        if _VARIABLE.match(name):
            return self._variable_refused(name, value)
        flag, reason = self._flag(knob)
        if flag is None:
            return reason
        return self._value_refused(flag, value)

    def _variable_refused(self, name: str, value: str) -> str:
        known = variable_known(name, self._version)
        if known is False or (known is None and not variable_spans(name)):
            return self._unknown("variable of vLLM")
        now = self._diagnosis.run.environment.get(name)
        if now is not None and str(now.value) == value:
            return f"{_ALREADY}{self._at(now.evidence)}"
        return "" if value else "no value"

    def _flag(self, knob: str) -> tuple[Flag | None, str]:
        found = flag_at(knob, self._version)
        if found is None:
            eras = flag_history(knob)
            if self._version is None and eras:
                return eras[-1].flag, ""
            return None, self._unknown("flag")
        return found, ""

    def _unknown(self, kind: str) -> str:
        return f"no such {kind} in {f'vLLM {self._version}' if self._version else 'any known release'}"

    def _value_refused(self, flag: Flag, value: str) -> str:
        run = self._diagnosis.run
        field = flag.name.removeprefix("--").replace("-", "_")
        wanted: Any = parse_value(value) if value else True
        if flag.form == "value" and (not value or isinstance(wanted, bool)):
            return "no value that the flag takes"
        if flag.form != "value" and not isinstance(wanted, bool):
            return "a switch takes no value"
        now = run.config.get(field)
        if now is not None and (now.value == wanted or str(now.value).lower() == value.lower()):
            return f"{_ALREADY}{self._at(now.evidence)}"
        refused = dict(self._diagnosis.plan.refused).get(flag.name)
        if refused:
            return f"left out of the plan: {refused}"
        if flag.choices and str(wanted) not in map(str, flag.choices):
            return f"it takes {', '.join(map(str, flag.choices[:12]))}"
        try:
            check_setting(field, wanted, self._version)
        except LogdoctorError as error:
            if not str(error).startswith("unknown setting"):
                raise
        change = Change(flag.name, "flag", now.value if now else None, wanted, "needs-test")
        repairs = run.outcome in BROKEN
        return obstacle(planned_run(run, [change]), change, load_of(run), repairs)

    def _at(self, evidence: Any) -> str:
        return "".join(f" [L{at}]" for at in self._places.of(evidence, 1))
