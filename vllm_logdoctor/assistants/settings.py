"""Return whether a setting that a model proposes exists in the release, is new, and passes the plan's checks."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.assistants.excerpt import Places
from vllm_logdoctor.assistants.question import ChangeIn
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.flags import Flag, flag_at, flag_history
from vllm_logdoctor.knowledge.variables import variable_default, variable_known, variable_spans
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
_LONGEST_VALUE = 80
_NEVER = "weakens security or changes what is served: never on the word of a model"
# {"kv_connector": "X", "kv_connector_module_path": "evil.module"}
_LOADS_CODE = lazy_pattern(r"(?i)module_path|trust_remote|_cls\b|plugin")
_ALREADY = "already set to that"
_COUNT = lazy_pattern(r"^--(?:max|num)-[a-z-]*(?:seqs|len|tokens|loras|blocks|override)$|-parallel-size$")
# 8k, 8K and 1.5M are 8,000, 8,192 and 1,572,864
_SHORT = lazy_pattern(r"(\d+(?:\.\d+)?)([kKmMgG])\Z")
_SIZES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_LARGEST = {"--port": 65_535}


class SettingChecks:
    """Checks the changes that are proposed for one run."""

    def __init__(self, diagnosis: Diagnosis, places: Places) -> None:
        self._diagnosis = diagnosis
        self._places = places
        version = diagnosis.run.version
        self._version = str(version.value) if version else None

    def checked(self, proposed: ChangeIn) -> ProposedChange:
        """Return a change with the reason why it is refused, if it is."""
        name, value = proposed.setting.strip(), " ".join(visible(proposed.value).split())
        knob = self._knob(name)
        try:
            reason = self._refused(name, knob, value)
        except LogdoctorError as error:
            reason = str(error)
        except Exception:
            # The plan's formulas are made for values that a rule chose: what they can't compute is not accepted.
            reason = "it can't be checked with the figures of this log"
        return ProposedChange(visible(knob)[:80], value[:_LONGEST_VALUE], not reason, reason)

    def _refused(self, name: str, knob: str, value: str) -> str:
        if not (_VARIABLE.match(name) or _FLAG.match(name)):
            return "no name of a setting"
        if len(value) > _LONGEST_VALUE:
            return f"a value of more than {_LONGEST_VALUE} characters is not checked"
        if _VARIABLE.match(name):
            return _NEVER if name in _UNSAFE else self._variable_refused(name, value)
        flag = self._flag(knob)
        if knob in _UNSAFE or (flag is not None and flag.name in _UNSAFE) or _LOADS_CODE.search(value):
            return _NEVER
        return self._unknown("flag") if flag is None else self._value_refused(flag, knob, value)

    def _variable_refused(self, name: str, value: str) -> str:
        known = variable_known(name, self._version)
        if known is False or (known is None and not variable_spans(name)):
            return self._unknown("variable of vLLM")
        now = self._diagnosis.run.environment.get(name)
        if now is not None and str(now.value) == value:
            return f"{_ALREADY}{self._at(now.evidence)}"
        default = variable_default(name, self._version or "")
        return _no_number(default, parse_value(value)) if value else "no value"

    def _knob(self, name: str) -> str:
        """Return the name of a variable as it is, and of a setting its flag: also of a short form such as -tp."""
        if _VARIABLE.match(name):
            return name
        short = flag_at(name, self._version) if name.startswith("-") and not name.startswith("--") else None
        return short.name if short else f"--{name.lstrip('-').replace('_', '-')}"

    def _flag(self, knob: str) -> Flag | None:
        eras = flag_history(knob) if self._version is None else []
        return eras[-1].flag if eras else flag_at(knob, self._version)

    def _unknown(self, kind: str) -> str:
        return f"no such {kind} in {f'vLLM {self._version}' if self._version else 'any known release'}"

    def _value_refused(self, flag: Flag, knob: str, value: str) -> str:
        run = self._diagnosis.run
        field = flag.name.removeprefix("--").replace("-", "_")
        short = _SHORT.match(value) if _COUNT.search(flag.name) else None
        wanted: Any = parse_value(value) if value else True
        if short:
            wanted = int(float(short[1]) * _SIZES[short[2]])
        if flag.form == "value" and (not value or isinstance(wanted, bool)):
            return "no value that the flag takes"
        if flag.form != "value" and not isinstance(wanted, bool):
            return "a switch takes no value"
        if knob.startswith("--no-") and not flag.name.startswith("--no-"):
            wanted = not wanted
            value = str(wanted)
        now = run.config.get(field)
        if now is not None and (now.value == wanted or str(now.value).lower() == value.lower()):
            return f"{_ALREADY}{self._at(now.evidence)}"
        refused = dict(self._diagnosis.plan.refused).get(flag.name)
        if refused:
            return f"left out of the plan: {refused}"
        if flag.form == "value" and (reason := _no_number(flag.default, wanted, flag.name)):
            return reason
        if flag.choices and str(wanted) not in map(str, flag.choices):
            return f"it takes {', '.join(map(str, flag.choices[:12]))}"
        try:
            check_setting(field, wanted, self._version)
        except LogdoctorError as error:
            if not str(error).startswith("unknown setting"):
                raise
        change = Change(flag.name, "flag", now.value if now else None, wanted, "needs-test")
        repairs = run.outcome in BROKEN
        if repairs and (reason := self._less_than_the_remedy(flag.name, wanted)):
            return reason
        return obstacle(planned_run(run, [change]), change, load_of(run), repairs)

    def _less_than_the_remedy(self, name: str, wanted: Any) -> str:
        """Return why a change does not go far enough: the plan's remedy of the failure changes the same setting further."""
        for change in (one.change for one in self._diagnosis.plan.changes if one.change.knob == name):
            values = (change.before, change.after, wanted)
            if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
                before, after = change.before, change.after
                if before < after > wanted or before > after < wanted:
                    return f"not far enough: the plan's remedy of the failure is {after:,}"
        return ""

    def _at(self, evidence: Any) -> str:
        return "".join(f" [L{at}]" for at in self._places.of(evidence, 1))


def _no_number(default: Any, wanted: Any, name: str = "") -> str:
    """Return why a value is none that a setting takes whose default, or whose name, shows that it is a number."""
    counts = isinstance(default, int) or _COUNT.search(name) is not None
    if isinstance(default, bool) or wanted is None or not (counts or isinstance(default, float)):
        return ""
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return "" if wanted == "auto" else "it takes a number"
    # From some release on -1 lets vLLM find the longest length.
    if wanted < 0 and (default is None or default >= 0) and name not in ("--seed", "--max-model-len"):
        return "it takes no negative number"
    if wanted > _LARGEST.get(name, wanted):
        return f"it takes at most {_LARGEST[name]:,}"
    return "it takes a whole number" if counts and wanted % 1 else ""
