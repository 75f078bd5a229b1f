"""Changes that a run has already, and questions that its log answers: advice that would do nothing."""

from __future__ import annotations

from itertools import pairwise

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.lifecycle import names_vllm, trail_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import framework_of
from vllm_logdoctor.run.tracelines import frame_line

# Start with `--kv-cache-dtype fp8`: ...      Run once with `CUDA_LAUNCH_BLOCKING=1` ...
_SETTING = lazy_pattern(
    r"`(?:(?P<flag>--[a-z][\w-]*)[ =](?P<value>[^\s`]+)|(?P<variable>[A-Z][A-Z0-9]*_[A-Z0-9_]+)=(?P<set>[^\s`]+))`"
)
# Drop `--quantization`: vLLM reads the method from the checkpoint.      Unset `VLLM_ATTENTION_BACKEND`: vLLM then chooses.
_DROPPED = lazy_pattern(
    r"(?:Or )?(?:[Dd]rop|[Ll]eave|[Rr]emove|[Uu]nset) `(?:(?P<flag>--[a-z][\w-]*)|(?P<variable>VLLM_[A-Z0-9_]+))`"
)
# Start once with `--enforce-eager` to see whether torch.compile generates the kernel.
_STARTED_WITH = lazy_pattern(r"(?:Start|Run)(?: once)? with `--(?P<switch>[a-z][\w-]*)`")
# Lower `--gpu-memory-utilization` by 0.05.      Give the cache more memory: raise `--gpu-memory-utilization` if ...
_RESIZES_CACHE = lazy_pattern(r"(?:^|[:;] )(?:[Ll]ower|[Rr]aise) `--gpu-memory-utilization`")
_FIXED_CACHE = "kv-cache-memory-reserved"
# Cell In[2], line 2      <ipython-input-5-1d2c>      /usr/lib/python3/dist-packages/ipykernel_launcher.py
_OF_NOTEBOOK = lazy_pattern(r"^Cell In\[|<ipython-input-|\bipykernel")
_OF_SCRIPT = "__main__"
# Leave out `--device cpu`: this build serves on its GPUs.
_TAKES_AWAY = lazy_pattern(r"\b(?:[Ll]eave out|[Dd]rop|[Uu]nset|[Rr]emove|[Ww]ithout)\b")
# Open the ports between nodes; look for a firewall or a VPN interface.
_OF_SEVERAL_NODES = lazy_pattern(r"\b(?:on all|between) nodes\b")
_OF_SPLIT_LAYERS = "Where several cards share a layer"
_OF_ONE_RANK = lazy_pattern(r"/uniproc_executor\.py\"|/gpu_executor\.py\"")
"""Executors that start one worker; launchers of other programs use the first for each of several ranks."""
_ON_LOOPBACK = "distributed_init_method=tcp://127.0.0.1:"
_OF_ATTENTION = lazy_pattern(r"File \"[^\"]*(?:[/_]attention|_attn|/mla/)|Batch(?:Prefill|Decode)With")
# (words of a piece of advice, what a run prints that it can be for, the setting that switches the feature on)
_FEATURES = (
    (
        lazy_pattern(r"(?:(?:With|For|Merge) )?(?:[Aa]dapters?|LoRA)\b"),
        lazy_pattern(r"--enable-lora|--lora-modules|\blora_[AB]\b|lora_request(?![:=] ?None)|adapter_(?:model|config)"
            r"|\.base_layer\.|(?i:adapter)s? "),
        "enable_lora",
    ),
    (lazy_pattern(r"(?:With|For) GGUF\b"), lazy_pattern(r"(?i)gguf"), ""),
    (lazy_pattern(r"With images\b"), lazy_pattern(r"/models/\w*(?:vl|vision|llava|pixtral|mllama|omni|minicpm[vo]|phi3v|molmo|ovis|_mm)\w*\.py"), ""),
    (lazy_pattern(r"With MIG\b"), lazy_pattern(r"\bMIG\b"), ""),
    (lazy_pattern(r"With Ray\b"), lazy_pattern(r"\bray\b|\bRay\w*"), ""),
    (lazy_pattern(r"In (?:a|the) notebook\b"), _OF_NOTEBOOK, ""),
    (lazy_pattern(r"In a job\b"), lazy_pattern(r"(?i)slurm|\bsrun\b|\bpbs\b|\bqsub\b"), ""),
    (lazy_pattern(r"With speculative decoding\b"), lazy_pattern(r"/spec_decode|draft_token_ids_|SpecDecoding metrics"), "speculative_config"),
    (lazy_pattern(r"If the sampler failed"), lazy_pattern(r"(?i)flashinfer.{0,40}(?:sampl|top-)"), ""),
    (lazy_pattern(r"Ask for tool calls without `stream`"), lazy_pattern(r"extract_tool_calls_streaming"), ""),
    (lazy_pattern(r"With data parallelism\b"), lazy_pattern(r"\bDP[1-9]|--data-parallel|data_parallel_size=(?!1\b)"), ""),
    (lazy_pattern(r"On the CPU backend\b"), lazy_pattern(r"VLLM_CPU_|device_config=cpu|[Pp]latform cpu\b|/cpu_(?:worker|executor|model_runner)"), ""),
    (lazy_pattern(r"If attention failed|For an attention kernel"), _OF_ATTENTION, ""),
    (lazy_pattern(r"If a layer of experts failed"), lazy_pattern(r"_moe\b|/fused_moe|(?i:moe)_|[Ee]xperts"), ""),
    (lazy_pattern(r"If FlashInfer builds"), lazy_pattern(r"(?i)flashinfer"), ""),
    (lazy_pattern(r"If torch\.compile builds"), lazy_pattern(r"/_inductor/|_dynamo/|torch\._inductor"), ""),
)  # fmt: skip

# Make the profiling run smaller: `--max-num-batched-tokens`, `--max-num-seqs`, and for images `--limit-mm-per-prompt`.
# Lower `--max-num-batched-tokens` or `--max-num-seqs` for a smaller profiling run.      Capture fewer sizes: a lower `--max-num-seqs`, or ...
_LOWERS = lazy_pattern(r"\b(?:[Ll]ower|smaller|fewer)\b")
_FEWER_SEQUENCES = lazy_pattern(
    r"a lower `--max-num-seqs`, or |`--max-num-seqs`(?:, | or | and )|(?:, | or | and )`--max-num-seqs`"
)
_FOR_IMAGES = lazy_pattern(r",? and for images `--limit-mm-per-prompt`")
_OF_IMAGES = lazy_pattern(
    r"(?i)multi-?modal|vision|visual|image|video|audio|encoder cache|ForConditionalGeneration|VL\b|omni"
)
_PRINTS_SETTINGS = lazy_pattern(r"\bargs: |with config: ")
"""They list settings for images whatever the model is."""
_FLAGS = lazy_pattern(r"--[a-z][\w-]*")
_SMALLER_WEIGHTS = "Make the weights smaller"
_LITTLE_WEIGHTS_GIB = 1.0
"""Weights that leave almost all of any card: smaller ones bring nothing."""
# With speculative decoding, ...      On the CPU backend, ...      In a job, ...
_CONDITION = lazy_pattern(r"(?:With(?:out)?|For|In|On) [^,.:`]{2,40}, (?=\w)")
_WITHOUT = "Without "
# Run once with `CUDA_LAUNCH_BLOCKING=1` and `--enforce-eager`: the traceback then names the kernel.
_AND_SWITCH = lazy_pattern(r" and `--(?P<switch>[a-z][\w-]*)`(?=[:,] )")
# What a trial of both shows: the variable alone leaves graphs and compiled code on.
_IF_BOTH_HELP = lazy_pattern(r" If it no longer fails, [^.]*\.")
# Start once with `--enforce-eager` to see whether torch.compile generates the kernel.
_ASKS_FOR_ORIGIN = "torch.compile generates the kernel"


def already_set(run: Run, change: Change) -> bool:
    """Return whether the launch of a run has what a change asks for.

    A flag counts where the user gave it; a variable where the log shows that it was set.

    Example:
        >>> already_set(Run(), Change("--max-num-seqs", "flag", None, 64))
        False
    """
    if change.after is None or change.kind not in ("flag", "env"):
        return False
    if change.kind == "env":
        shown = run.environment.get(change.knob)
        return shown is not None and str(shown.value) == str(change.after)
    negated = change.knob.startswith("--no-")
    name = change.knob.removeprefix("--no-" if negated else "--").replace("-", "_")
    value = run.config.get(name)
    wanted = not change.after if negated else change.after
    return value is not None and value.provenance == "explicit" and bool(value.value == wanted)


def fixes_cache(run: Run) -> bool:
    """Return whether the size of the KV cache was given in bytes: then gpu_memory_utilization does not change it."""
    return _FIXED_CACHE in run.messages


def is_pointless(text: str, run: Run) -> bool:
    """Return whether advice in words sets what the launch has set, drops what it has not, or is for a feature not in use.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(environment={"CUDA_LAUNCH_BLOCKING": Value("1", "explicit")})
        >>> is_pointless("Set `CUDA_LAUNCH_BLOCKING=1` for one run.", run), is_pointless("Drop `--quantization`.", run)
        (True, True)
        >>> is_pointless("Set `NCCL_DEBUG=INFO`.", run)
        False
    """
    if fixes_cache(run) and _RESIZES_CACHE.search(text):
        return True
    if _OF_SEVERAL_NODES.search(text) and _is_on_one_node(run):
        return True
    if (text.startswith(_OF_SPLIT_LAYERS) and _has_one_rank(run)) or _makes_nothing_smaller(text, run):
        return True
    dropped = _DROPPED.match(text)
    if dropped is not None and dropped["variable"]:
        return dropped["variable"] not in run.environment
    if dropped is not None:
        value = run.config.get(dropped["flag"][2:].replace("-", "_"))
        return (value is None or value.provenance != "explicit") and not _prints(run, dropped["flag"])
    started = _STARTED_WITH.match(text)
    if started is not None and run.setting(started["switch"].replace("-", "_")) is True:
        return True
    if _ASKS_FOR_ORIGIN in text and _launches_own_kernel(run):
        return True
    if _OF_SCRIPT in text and any(_OF_NOTEBOOK.search(one.message) for one in trail_of(run)):
        return True
    asked = list(_SETTING.finditer(text))
    taken_away = bool(asked) and _TAKES_AWAY.search(text, 0, asked[0].start()) is not None
    if (
        asked
        and not taken_away
        and all(
            already_set(run, _as_change(one["flag"], one["value"], one["variable"], one["set"]))
            for one in asked
        )
    ):
        return True
    if text.startswith(_WITHOUT):
        return _is_of_feature(_with(text)) and not _lacks_feature(_with(text), run)
    return _lacks_feature(text, run)


def _with(text: str) -> str:
    """Return advice for a run without a feature as if it were for one with it."""
    return text.replace(_WITHOUT, "With ", 1) if text.startswith(_WITHOUT) else text


def _is_of_feature(text: str) -> bool:
    return any(words.match(text) for words, _, _ in _FEATURES)


def _lacks_feature(text: str, run: Run) -> bool:
    """Return whether advice is for a feature that a run shows no use of."""
    return any(
        words.match(text)
        and not run.setting(setting)
        and not any(shown.search(one.message) for one in trail_of(run))
        for words, shown, setting in _FEATURES
    )


def _is_on_one_node(run: Run) -> bool:
    """Return whether all ranks of an engine are on one node: one process starts them, or they meet at the loopback address."""
    if run.may_have_several_engines or run.setting("nnodes") not in (None, 1):
        return False
    local = run.setting("distributed_executor_backend") in ("mp", "uni")
    return local or any(_ON_LOOPBACK in one.message for one in trail_of(run))


def _has_one_rank(run: Run) -> bool:
    """Return whether the engine runs on one card: by its setting, or by the executor in a traceback."""
    size = run.setting("tensor_parallel_size")
    if size is not None:
        return bool(size == 1)
    texts = [one.message for one in trail_of(run)]
    launched = any("external_launcher" in text or "torchrun" in text for text in texts)
    return not launched and any(_OF_ONE_RANK.search(text) for text in texts)


def without_condition(text: str, run: Run) -> str:
    """Return advice for a feature without the words that name the feature, where the run uses it: With LoRA, send ... is Send ...

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(config={"enable_lora": Value(True, "explicit")})
        >>> without_condition("With LoRA, send the requests again.", run), without_condition("With MIG, name it.", run)
        ('Send the requests again.', 'With MIG, name it.')
    """
    condition = _CONDITION.match(text)
    if condition is None or not _is_of_feature(_with(text)) or is_pointless(text, run):
        return text
    return text[condition.end()].upper() + text[condition.end() + 1 :]


def without_least(text: str, run: Run) -> str:
    """Return advice to lower settings without those that can't be lower, or are for images that the model does not take.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(config={"max_num_seqs": Value(1, "explicit")})
        >>> without_least("Lower `--max-num-seqs` or `--max-num-batched-tokens`.", run)
        'Lower `--max-num-batched-tokens`.'
    """
    if _LOWERS.search(text) is None:
        return text
    if run.setting("max_num_seqs") == 1:
        text = _FEWER_SEQUENCES.sub("", text, count=1)
    without = _FOR_IMAGES.sub("", text)
    return text if text == without or _takes_images(run) else without


def _makes_nothing_smaller(text: str, run: Run) -> bool:
    """Return whether advice makes only smaller what is as small as it can be: weights that take hardly anything, one sequence."""
    if text.startswith(_SMALLER_WEIGHTS):
        return (run.measure("model_weights_gib") or _LITTLE_WEIGHTS_GIB) < _LITTLE_WEIGHTS_GIB
    of_sequences = _LOWERS.search(text) is not None and set(_FLAGS.findall(text)) == {"--max-num-seqs"}
    return of_sequences and run.setting("max_num_seqs") == 1


def _takes_images(run: Run) -> bool:
    """Return whether a log shows a model of images, video or sound; one that names no model may be of such a model."""
    if run.model is None or run.setting("limit_mm_per_prompt") or _OF_IMAGES.search(str(run.model.value)):
        return True
    shown = (one.message for one in trail_of(run) if _OF_IMAGES.search(one.message))
    return any(_PRINTS_SETTINGS.search(one) is None for one in shown)


def without_switches(text: str, run: Run | None = None) -> str:
    """Return advice that sets a variable and a switch without the switch and what both show.

    With a run, only where the run has the switch on or is not vLLM's.

    >>> without_switches("Run once with `CUDA_LAUNCH_BLOCKING=1` and `--enforce-eager`: the traceback names the kernel.")
    'Run once with `CUDA_LAUNCH_BLOCKING=1`: the traceback names the kernel.'
    """
    found = _AND_SWITCH.search(text)
    if found is None:
        return text
    if (
        run is not None
        and not framework_without_vllm(run)
        and run.setting(found["switch"].replace("-", "_")) is not True
    ):
        return text
    return _IF_BOTH_HELP.sub("", _AND_SWITCH.sub("", text))


def framework_without_vllm(run: Run) -> str:
    """Return the framework for training whose traceback a log shows, where no line speaks of vLLM; else "": no flag of vLLM changes it."""
    if names_vllm(run):
        return ""
    places = (frame_line(one.message) for one in trail_of(run))
    return next((name for one in places if one is not None and (name := framework_of(one.file))), "")


def _launches_own_kernel(run: Run) -> bool:
    """Return whether a traceback goes from vLLM's own code into Triton's: then torch.compile did not generate the kernel."""
    frames = [record.message for record in trail_of(run) if 'File "' in record.message]
    return any("/vllm/" in caller and "/triton/runtime/" in called for caller, called in pairwise(frames))


def _as_change(flag: str | None, value: str, variable: str, assigned: str) -> Change:
    if flag is None:
        return Change(variable, "env", None, assigned)
    return Change(flag, "flag", None, int(value) if value.isdigit() else value)


def _prints(run: Run, flag: str) -> bool:
    """Return whether a run speaks of a setting: --quantization x      quantization=x      the `quantization` argument."""
    name = flag[2:].replace("-", "_")
    spoken = (flag, f"{name}=", f"`{name}`", f"'{name}'")
    return any(words in record.message for record in trail_of(run) for words in spoken)
