"""What the text of an exception itself says: what to do, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import Observation
from vllm_logdoctor.run.blocks import Raised
from vllm_logdoctor.run.owners import TENSOR_LIBRARIES, owner_of

# Asking to pad but the tokenizer has no padding token. Please select a token to use as `pad_token`.
# free memory is below the reserve: 13 bytes available, 15 required. Replan more layers into host memory.
_OWN_REMEDY = lazy_pattern(
    r"(?:^|[.!:;,] )(?P<way>(?:[Pp]lease (?!check the stack|see |refer|report|file |open |contact)"
    r"|(?:Try|Consider|Use|Set|Make sure|Ensure|Install|Upgrade|Increase|Decrease|Lower|Raise|Choose|Select"
    r"|Re(?:plan|duce|install|build|start)) )"
    r"[^\n]{8,240}?)(?:[.!](?=\s|$)|\n|$)"
)
_LONGEST_WAY = 200
# Model architectures TinyForCausalLM are not supported for now. Supported architectures: ...
_FIRST_SENTENCE = lazy_pattern(r"[^\n]{1,300}?(?=[.!?](?:\s|$)|\n|$)")
_FEWEST_WORDS = 4
# 'TinyTokenizer' object has no attribute 'vocab_file'      module 'tiny' has no attribute 'scale'
_NO_ATTRIBUTE = lazy_pattern(
    r"(?:(?P<kind>module|type object) )?'(?P<owner>[\w.]{1,80})'(?: object)? has no attribute '(?P<name>\w{1,80})'"
)
# Scale.__init__() got an unexpected keyword argument 'ge'
_NO_ARGUMENT = lazy_pattern(
    r"(?P<called>[\w.<>]{1,100})\(\) got an unexpected keyword argument '(?P<name>\w{1,80})'"
)

# JSONDecodeError: Expecting value: line 1 column 1 (char 0)
_NO_JSON = "Expecting value: line 1 column 1 (char 0)"
# self = <json.decoder.JSONDecoder object at 0x7fc6998f1800>, s = '', idx = 0
PARSED_NOTHING = lazy_pattern(r"JSONDecoder object at 0x[0-9a-f]+>, s = '', idx = ")


def stated_remedy(observation: Observation) -> str:
    """Return what the text of an exception itself says to do, or ""."""
    found = _OWN_REMEDY.search(observation.text[:1200])
    way = found["way"].strip() if found else ""
    return way if len(way) <= _LONGEST_WAY else way.partition(" or ")[0]


def stated_cause(raised: Raised, trail: Iterable[Record] = ()) -> str:
    """Return what an exception itself says is wrong, as a sentence without its full stop, or "".

    Code that refuses something (`raise ...`) says why; a missing attribute or argument is named. What Python says of a
    wrong value ("list index out of range") is no cause. Values that pytest prints beside it are in the trail.
    """
    attribute = _NO_ATTRIBUTE.match(raised.text)
    if attribute is not None:
        if attribute["owner"] == "NoneType":
            return f"The code reads `{attribute['name']}` of a value that is None"
        kind = attribute["kind"] or "the class"
        return f"The code reads `{attribute['name']}`, which {kind} `{attribute['owner']}` does not have"
    argument = _NO_ARGUMENT.match(raised.text)
    if argument is not None:
        return (
            f"The code passes the argument `{argument['name']}`, which `{argument['called']}()` does not take"
        )
    if raised.name == "JSONDecodeError" and raised.text.startswith(_NO_JSON):
        is_empty = any(PARSED_NOTHING.search(one.text[:300]) for one in trail)
        return (
            f"The text that was parsed as JSON is empty{'' if is_empty else ' or does not begin with JSON'}"
        )
    text = (
        raised.text.strip("'\"") if raised.name == "KeyError" else raised.text
    )  # It prints its text as a key.
    stated = _FIRST_SENTENCE.match(text)
    # What torch says of an argument is a symptom: whoever passed it, or the release of torch, is at fault.
    refuses = (
        bool(raised.frames)
        and raised.frames[-1].code.startswith("raise ")
        and owner_of(raised.frames[-1].file) not in TENSOR_LIBRARIES
    )
    if not refuses or stated is None or len(stated[0].split()) < _FEWEST_WORDS:
        return ""
    return f"The message states the cause: {stated[0]}"
