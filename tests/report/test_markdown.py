"""The Markdown report: its sections, its sentences, and what a hostile log can't do to it."""

from __future__ import annotations

import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.failure.test_naming import LOAD, at_start
from tests.report.synthetic import make_analysis
from vllm_logdoctor import analyze
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.reader import reader

HOSTILE = [
    "# heading",
    "\n# heading\n\n## two",
    "x\n---\n",
    "x\n===",
    "```\n# out of the fence\n```",
    "`````` # a",
    "~~~\nx",
    "| a | b |\n|---|---|\n| c | d |",
    "\\| a \\\\| b",
    "![x](http://evil.example/b.png)",
    "[click](javascript:alert(1))",
    "[a]: http://evil.example",
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<!-- x",
    "&lt;b&gt; &#60;",
    "- [ ] item",
    "1. item",
    "> quote",
    "    code",
    "\x1b[31mred\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "\u202egnp.exe\u2066",
    "a\u2028# b\u2029# c\x85# d\x0b# e\x0c# f",
    "\x00\x01\ufffe\ud800",
    "[bold red]x[/]",
    "{{ 7 * 7 }} ${x} {% y %}",
    "http://evil.example/?q=1 www.evil.example mail@evil.example #12 @user",
    "*a* _b_ __c__ ~~d~~ $e$",
    "[L17] [L99999]",
    "=cmd|' /C calc'!A0",
    "]]> --> */",
    "",
    " ",
    "`",
    "``",
    "\\",
    "\\`",
    "[](0:/)`",
    "|",
]

hostile_text = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*HOSTILE, "a", " ", "\n", "`", "|", "\\", "#", "<"]), max_size=6).map("".join),
    st.text(max_size=60),
)


def outline(text: str) -> list[tuple[str, str]]:
    """Heading levels and the kinds of blocks, in order."""
    return [
        (token.type, token.tag)
        for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    ]


def headings(blocks: list[tuple[str, str]]) -> list[str]:
    return [tag for kind, tag in blocks if kind == "heading_open"]


@cache
def outline_of_a_plain_log(failure: bool, runs: int) -> list[tuple[str, str]]:
    return outline(markdown.render(make_analysis("Qwen", failure=failure, runs=runs)))


def test_says_first_what_ran_and_how_it_ended(analysis):
    first, _, ran, _, verdict, *_ = markdown.render(analysis).split("\n")
    assert first == "# LIMITED: one seat Qwen"
    assert ran == "vLLM 0.18.1 · Qwen · 4 GPUs (TP=4) · log of 6 min 40 s · clean shutdown"
    assert verdict == "**Requests wait for Qwen with `Qwen` [L7]. Nobody asked Qwen [L12].**"


def test_sections_come_in_the_order_of_the_reader_s_questions(analysis_of):
    titles = [
        line for line in markdown.render(analysis_of(failure=True)).split("\n") if line.startswith("## ")
    ]
    assert [title.lstrip("# ") for title in titles] == [
        "What broke",
        "What to change",
        "Launch command with the changed settings",
        "Load",
        "Timeline",
        "KV cache",
        "Configuration",
        "Model, hardware, software",
        "Missing from this log",
        "What was read",
    ]


def test_the_same_error_on_another_rank_is_no_follow_up(analysis_of):
    diagnosis = analysis_of(failure=True).runs[0]
    root, cascade, *others = diagnosis.findings
    first = replace(root.evidence[0], text="(Worker_TP0 pid=7) ValueError: no such layer")
    again = (replace(first, line=9, text="(Worker_TP3 pid=9) ValueError: no such layer"),)
    findings = (replace(root, evidence=(first,)), replace(cascade, evidence=again), *others)
    text = markdown.render(replace(analysis_of(failure=True), runs=(replace(diagnosis, findings=findings),)))
    assert "The same error from other processes: [L9]." in text
    assert "Follow-up errors" not in text


def test_a_start_that_failed_gets_no_advice_on_tuning(analysis_of):
    diagnosis = analysis_of(failure=True).runs[0]
    analysis = analysis_of(failure=True)
    run = replace(diagnosis.run, outcome="crashed_at_startup")
    text = markdown.render(replace(analysis, runs=(replace(diagnosis, run=run),)))
    assert text.startswith("# FAILED at start-up: out of memory Qwen\n")
    assert "What to change" not in text
    assert "one seat" not in text


def test_a_section_with_nothing_to_say_is_left_out(analysis):
    assert "What broke" not in markdown.render(analysis)


def test_the_root_cause_comes_before_what_followed_from_it(analysis_of):
    text = markdown.render(analysis_of(failure=True))
    assert (
        text.index("out of memory Qwen")
        < text.index("Because Qwen")
        < text.index("Follow-up errors, not the cause: [L9].")
    )


def test_several_runs_begin_with_a_table_of_them(analysis_of):
    text = markdown.render(analysis_of(failure=True, runs=3))
    assert text.startswith("# 3 runs of vLLM in ")
    assert "**3 of 3 failed, all in the same way; start with run 1.**" in text
    assert headings(outline(text)).count("h1") == 1


def test_a_server_that_is_restarted_in_vain_is_described_once(analysis_of):
    text = markdown.render(analysis_of(failure=True, runs=3))
    assert text.count("The same failure as in run 1") == 2
    assert text.count("Because Qwen") == 1


def test_the_same_error_with_and_without_a_header_is_the_same_failure_with_the_same_settings():
    framed = at_start("KeyError: 'masks'", LOAD)
    bare = re.sub(r"ERROR \S+ \S+ \[core\.py:\d+\] ", "", framed)
    text = analyze([*framed.splitlines(), *bare.splitlines()]).to_markdown()
    assert bare != framed
    assert text.count("The same failure as in run 1") == 1
    assert "As in run 1." not in text


def test_numbers_carry_their_origin(analysis):
    text = markdown.render(analysis)
    assert "1.05 to 4.1 x generation throughput (published measurements: Qwen)" in text
    assert (
        "85,760 tokens [L7]; 5.24 GiB per GPU [L7]; about 64.1 KiB per token per GPU; 2.62 requests of 32,768 tokens at once"
        in text
    )


def test_evidence_names_the_file_only_where_there_are_several(analysis, analysis_of):
    assert "[L7]" in markdown.render(analysis)
    assert "Qwen.log L7" in markdown.render(analysis_of(runs=2))


@settings(max_examples=120, deadline=None)
@given(text=hostile_text, failure=st.booleans(), runs=st.integers(1, 2))
def test_log_text_never_changes_the_tree_of_headings_and_blocks(text, failure, runs):
    blocks = outline(markdown.render(make_analysis(text, failure=failure, runs=runs)))
    described = 1 if failure else runs
    assert blocks.count(("ordered_list_open", "ol")) == described
    assert headings(blocks) == headings(outline_of_a_plain_log(failure, runs))
    kinds = {kind for kind, _ in blocks}
    assert not kinds & {"html_block", "blockquote_open", "hr", "code_block"}


@settings(max_examples=100, deadline=None)
@given(text=hostile_text)
def test_log_text_is_never_a_link_an_image_or_html(text):
    report = markdown.render(make_analysis(text, failure=True))
    permissive = MarkdownIt("commonmark", {"html": True}).enable("table")
    children = {child.type for token in permissive.parse(report) for child in token.children or []}
    assert children <= {"text", "code_inline", "strong_open", "strong_close", "softbreak", "text_special"}


@settings(max_examples=100, deadline=None)
@given(text=hostile_text)
def test_tables_keep_their_columns(text):
    tokens = reader().parse(markdown.render(make_analysis(text, failure=True)))
    width, cells = 0, 0
    for token in tokens:
        if token.type == "thead_open":
            width = 0
        elif token.type == "th_open":
            width += 1
        elif token.type == "tr_open":
            cells = 0
        elif token.type == "td_open":
            cells += 1
        elif token.type == "tr_close" and cells:
            assert cells == width


@settings(max_examples=100, deadline=None)
@given(text=hostile_text)
def test_nothing_in_the_report_acts_on_a_terminal(text):
    report = markdown.render(make_analysis(text, failure=True))
    report.encode("utf-8")
    assert not any(
        (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u2028" for c in report
    )


def test_a_citation_names_a_file_below_the_folder_that_all_inputs_share_and_only_once(tmp_path):
    from vllm_logdoctor.pipeline import Options, analyse
    from vllm_logdoctor.source import inputs_from

    start = "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.9.0\n"
    out_of_memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    for rank in (0, 1):
        trace = f'Traceback (most recent call last):\n  File "/opt/vllm/worker.py", line {rank + 1}, in load_model\n    load()\n'
        (tmp_path / f"rank{rank}.log").write_text(start + trace + out_of_memory)
    text = markdown.render(analyse(inputs_from([str(tmp_path)]), Options()))
    assert str(tmp_path) not in text.partition("## What was read")[0]
    assert "[rank0.log L" in text


def test_the_first_line_names_the_logs_and_no_file_that_was_skipped(tmp_path):
    from vllm_logdoctor.pipeline import Options, analyse
    from vllm_logdoctor.source import inputs_from

    for name in ("a.log", "b.log"):
        line = f"INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.9.{name == 'b.log':d}\n"
        (tmp_path / name).write_text(line)
    inputs = [str(tmp_path)]
    (tmp_path / "logdoctor.md").write_text(markdown.render(analyse(inputs_from(inputs), Options())))
    text = markdown.render(analyse(inputs_from(inputs), Options()))
    assert "logdoctor.md" in text
    assert "logdoctor.md" not in text.partition("\n")[0]


@pytest.mark.parametrize(
    ("heading", "room"),
    [
        ("# 2 runs", {96, 120, 200}),  # a title, the file beside a line number, the file of a log
        ("## Run 1", {96, 120, 160, 230}),
        ("#### 1.", {120, 140, 160, 400}),
        ("### Load", {69, 70, 76, 120}),
        ("### Timeline", {60, 120}),
        ("### Configuration", {120, 158, 160}),
        ("### Model, hardware, software", {60, 120, 394}),
        ("## What was read", {120, 132, 200}),
    ],
)
def test_a_name_without_end_takes_the_room_of_its_place_in_the_report(heading: str, room: set[int]) -> None:
    report = markdown.render(make_analysis("q" * 700, failure=True, runs=2))
    section = report[report.index(f"\n{heading}" if heading != "# 2 runs" else heading) + 1 :]
    section = section[: section.index("\n#") if "\n#" in section else None]
    assert {len(name) for name in re.findall("q{16,}…", section)} == room


@pytest.mark.parametrize("piece", ["q", "q.", "_", "-", "a:", "~/."])
def test_a_word_without_end_is_read_once(piece: str) -> None:
    began = time.process_time()
    inline(piece * 2000)
    assert time.process_time() - began < 1.0
