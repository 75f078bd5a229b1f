"""The server driven by the SDK's own client over stdio: read-only, inside its roots, in pages, masked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistants.answering import ARGUMENTS, LOG
from tests.commands import logdoctor
from tests.parse.planted_secrets import BY_NAME, BY_PLACE, BY_SHAPE, token
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.mcp_server.roots import Roots
from vllm_logdoctor.mcp_server.tools import MOST_CHARACTERS, Tools, page, run_facts

if TYPE_CHECKING:
    from mcp import Client

# The SDK takes a second to import: only the processes that run these tests need it.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")
FIXTURES = Path("fixtures").resolve()
STARVED = "vllm-0.11.2-kv-starved.log"
Ask = Callable[..., Awaitable[Any]]


def with_client(root: Path, use: Callable[[Client, Ask], Awaitable[Any]]) -> Any:
    """Start the server on a root, connect the SDK's client, and use it."""
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "vllm_logdoctor", "mcp", "--root", str(root)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )

    async def session() -> Any:
        async with Client(command, read_timeout_seconds=60) as client:

            async def ask(tool: str, **arguments: Any) -> Any:
                answer = await client.call_tool(tool, arguments)
                text = answer.content[0].text
                return f"ERROR {text}" if answer.is_error else json.loads(text) if text[:1] in "{[" else text

            return await use(client, ask)

    return asyncio.run(session())


def test_every_tool_answers_over_stdio() -> None:
    async def use(client: Client, ask: Ask) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "analyze",
            "lines",
            "configuration",
            "whatif",
            "plan",
            "compare",
            "explain",
            "excerpt",
        }
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        summary = await ask("analyze", path=STARVED)
        assert summary["runs"][0]["state"] == "LIMITED: KV cache full"
        findings = await ask("analyze", path=STARVED, part="findings")
        assert findings["items"][0]["id"] == summary["runs"][0]["findings"][0]["id"]
        assert (await ask("lines", path=STARVED, first=58, last=58))["lines"][0]["text"].endswith(
            "5,120 tokens"
        )
        found = await ask("lines", path=STARVED, text="kv cache SIZE")
        assert [one["line"] for one in found["lines"]] == [58]
        (row,) = (await ask("configuration", path=STARVED, name="--max-num-seqs"))["items"]
        assert (row["value"], row["set_by"], row["lines"]) == (64, "explicit", [13])
        answer = await ask("whatif", path=STARVED, settings={"--max-model-len": 256})
        assert answer["max_concurrency"]["after"] == 20.0
        planned = await ask("plan", path=STARVED)
        assert planned["before"].startswith("vllm serve")
        different = await ask("compare", before=STARVED, after="vllm-0.11.2-tp2.log")
        assert different["total"] > 5
        assert "0.18.0" in (await ask("explain", name="--swap-space", release="0.18.0"))["items"][2]
        assert (await ask("explain", name="eager-mode"))["items"][0].startswith("#")
        assert (await ask("excerpt", path=STARVED)).startswith("### LIMITED")

    with_client(FIXTURES, use)


def test_what_is_asked_wrongly_gets_an_error_that_helps() -> None:
    async def use(client: Client, ask: Ask) -> None:
        for tool, arguments, words in (
            ("analyze", {"path": "nothing.log"}, f"no such file; logs below {FIXTURES} can be read"),
            ("analyze", {"path": STARVED, "part": "findingz"}, "did you mean findings?"),
            ("analyze", {"path": STARVED, "run": 9}, "there is no run 9"),
            ("analyze", {"path": STARVED, "part": "findings", "offset": 999}, "numbered from 0"),
            ("analyze", {"path": STARVED, "part": "findings", "offset": -1}, "numbered from 0"),
            ("lines", {"path": STARVED}, "name the lines"),
            ("lines", {"path": STARVED, "first": 0}, "numbered from 1"),
            ("lines", {"path": STARVED, "text": "a"}, "3 to 200 characters"),
            ("lines", {"path": STARVED, "first": "2:1"}, "there is one file"),
            ("lines", {"path": STARVED, "first": "L1 OR 1"}, "numbered from 1"),
            ("lines", {"path": STARVED, "first": 9, "last": 3}, "the first one first"),
            ("whatif", {"path": STARVED, "settings": {"max_modl_len": 1}}, "did you mean max_model_len?"),
            ("whatif", {"path": STARVED, "settings": {}}, "name a setting"),
            ("plan", {"path": STARVED, "shape": "cron"}, "unknown shape 'cron'"),
            ("explain", {"name": "--turbo"}, "no known release"),
            ("explain", {"name": "eager-mod"}, "eager-mode"),
            ("excerpt", {"path": STARVED, "lines": 3}, "30 to 150"),
            ("configuration", {"path": STARVED, "name": "--turbo"}, "not in the log"),
        ):  # fmt: skip
            answer = await ask(tool, **arguments)
            assert answer.startswith("ERROR "), (tool, arguments)
            assert words in answer
            assert "Traceback" not in answer

    with_client(FIXTURES, use)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with a log, beside it what must not be read, and links of all kinds to it."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    for folder in (outside, root, root / "sub"):
        (folder / "vllm.log").write_text("\n".join(LOG))
    (root / "link.log").symlink_to(outside / "vllm.log")
    (root / "folder").symlink_to(outside)
    (root / "sub" / "up").symlink_to("../..")
    (root / "sub" / "chain.log").symlink_to("../link.log")
    (root / "inside.log").symlink_to("sub/vllm.log")
    (root / "loop").symlink_to("loop")
    (root / "null").symlink_to("/dev/null")
    os.mkfifo(root / "pipe.log")
    (tmp_path / "root-other").mkdir()
    (tmp_path / "root-other" / "vllm.log").write_text("\n".join(LOG))
    return root


@pytest.mark.parametrize(
    "name",
    ["../outside/vllm.log", "sub/../../outside/vllm.log", "link.log", "folder/vllm.log", "sub/up/outside/vllm.log", "sub/chain.log",
     "../root-other/vllm.log", "/etc/passwd", "/proc/self/environ", "null", "/dev/stdin", "-", "", "x\0y", "~/.ssh/id_rsa", "//etc/passwd",
     "loop", "a" * 5000, "file:///etc/passwd", "http://evil.example/", "sub/../..", "pipe.log", "..", "/"],
)  # fmt: skip
def test_nothing_outside_of_the_roots_is_read(tree: Path, name: str) -> None:
    tools = Tools(Roots([str(tree)]))
    for call in (tools.analyze, tools.lines, tools.configuration, tools.plan, tools.excerpt):
        arguments = {"first": 1} if call == tools.lines else {}
        with pytest.raises((LogdoctorError, OSError)):
            call(name, **arguments)
    with pytest.raises((LogdoctorError, OSError)):
        tools.compare("vllm.log", name)


@pytest.mark.parametrize("name", ["vllm.log", "sub/vllm.log", "inside.log", "./sub/../vllm.log"])
def test_what_is_inside_is_read_by_any_of_its_names(tree: Path, name: str) -> None:
    tools = Tools(Roots([str(tree)]))
    assert tools.lines(name, 1)["lines"][0]["line"] == 1
    assert tools.lines(str(tree / name), 1)["lines"][0]["line"] == 1


def test_a_folder_gives_its_own_logs_only(tree: Path) -> None:
    (tree / "pipe.log").unlink()
    read = Roots([str(tree)]).files(".")
    assert {path.relative_to(tree).as_posix() for path in read} == {"vllm.log", "sub/vllm.log"}


@pytest.mark.parametrize("swapped", ["file", "folder", "pipe", "folder for a file"])
def test_what_is_put_in_the_place_of_a_log_after_the_check_is_not_followed(tree: Path, swapped: str) -> None:
    roots = Roots([str(tree)])
    files = roots.files("sub/vllm.log")
    (tree / "sub").rename(tree / "was")
    if swapped == "folder":
        (tree / "sub").symlink_to(tree.parent / "outside")
    else:
        (tree / "sub").mkdir()
        place = tree / "sub" / "vllm.log"
        if swapped == "file":
            place.symlink_to(tree.parent / "outside" / "vllm.log")
        elif swapped == "pipe":
            os.mkfifo(place)
        else:
            place.mkdir()
    with pytest.raises((LogdoctorError, OSError)), roots.opened(files):
        pass


def test_a_folder_with_a_pipe_and_links_out_of_it_is_read_without_them(tree: Path) -> None:
    tools = Tools(Roots([str(tree)]))
    assert tools.analyze(".")["runs_in_all"] == 2
    for run in (1, 2):
        found = tools.lines(".", text="vLLM API server version", run=run)
        assert ([one["line"] for one in found["lines"]], found["files"]) == ([1], ("vllm.log",))


def test_what_is_outside_is_not_distinguished_from_what_is_not_there(tree: Path) -> None:
    roots = Roots([str(tree)])
    told = set()
    for name in ("../outside/vllm.log", "../outside/nothing.log"):
        with pytest.raises(LogdoctorError) as caught:
            roots.files(name)
        told.add(str(caught.value).replace(name, "X"))
    assert len(told) == 1


def test_a_root_that_is_a_link_is_that_folder(tree: Path) -> None:
    (tree.parent / "alias").symlink_to(tree)
    assert Roots([str(tree.parent / "alias")]).files("vllm.log") == [tree / "vllm.log"]


def test_pages_hold_every_item_once_and_are_bounded(tmp_path: Path) -> None:
    lines = [
        f"(APIServer pid=5) WARNING 03-04 10:12:00 [odd{n}.py:{n}] widget of kind {chr(97 + n % 26) * 9}{n} {'y' * 300}"
        for n in range(400)
    ]
    (tmp_path / "vllm.log").write_text("\n".join([*LOG[:3], *lines, LOG[3]]))
    tools = Tools(Roots([str(tmp_path)]))
    for part in ("messages", "config", "findings", "processes"):
        found, offset = 0, 0
        while offset is not None:
            answer = tools.analyze("vllm.log", part, None, offset)
            assert len(json.dumps(answer, ensure_ascii=False)) < 2 * MOST_CHARACTERS
            assert answer["items"]
            found += len(answer["items"])
            offset = answer["next_offset"]
        assert found == answer["total"]


def test_lines_go_on_where_the_page_before_ended(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text("\n".join([*LOG, *(f"odd widget {n}" for n in range(350))]))
    tools = Tools(Roots([str(tmp_path)]))
    seen: list[int] = []
    start: int | None = 1
    while start is not None:
        answer = tools.lines("vllm.log", text="widget", start=start)
        seen += [one["line"] for one in answer["lines"]]
        start = answer["next"]
    assert seen == list(range(5, 355))
    numbered = tools.lines("vllm.log", 1, 10**12)
    assert (len(numbered["lines"]), numbered["next"]) == (100, 101)


@pytest.fixture
def two(tmp_path: Path) -> Tools:
    """Tools on a folder with the two logs of one server."""
    (tmp_path / "vllm.log.1").write_text(
        "\n".join([*LOG[:3], *(f"odd widget {n}" for n in range(150))]) + "\n"
    )
    (tmp_path / "vllm.log").write_text("\n".join([*(f"odd widget {n}" for n in range(70)), LOG[3]]) + "\n")
    return Tools(Roots([str(tmp_path)]))


def test_lines_of_several_files_are_those_that_an_excerpt_numbers(two: Tools) -> None:
    summary = two.analyze(".")
    assert summary["runs"][0]["files"] == ("vllm.log.1", "vllm.log")
    assert summary["runs"][0]["findings"][0]["lines"] == ["2:71"]
    assert two.lines(".", "2:71")["lines"] == [{"line": "2:71", "text": LOG[3]}]
    assert f"2:71  {LOG[3]}" in two.excerpt(".")
    assert two.lines(".", "1:3", "1:4")["lines"][0] == {"line": "1:3", "text": LOG[2]}


def test_a_search_goes_on_from_file_to_file(two: Tools) -> None:
    seen: list[str] = []
    start: Any = 1
    while start is not None:
        answer = two.lines(".", text="widget", start=start)
        seen += [one["line"] for one in answer["lines"]]
        start = answer["next"]
    assert seen == [*(f"1:{n}" for n in range(4, 154)), *(f"2:{n}" for n in range(1, 71))]


@pytest.mark.parametrize(
    ("first", "last"),
    [(3, 4), ("1:3", "2:4"), ("3:1", None), ("0:1", None), ("2:0", None), ("-1", None), ("1:", None), ("9" * 5000, None),
     ("1:1", "1:-1"), ("1:2:3", None), (True, None), (10**30, 10**30), ("2\x00:1", None)],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(two: Tools, first: Any, last: Any) -> None:
    with pytest.raises(LogdoctorError, match="line"):
        two.lines(".", first, last)


def test_pages_beyond_the_end_are_empty_or_refused(two: Tools) -> None:
    assert two.lines(".", "2:999999999999")["lines"] == []
    assert two.lines(".", text="widget", start="2:999999999999")["lines"] == []
    with pytest.raises(LogdoctorError, match="numbered from 0"):
        two.analyze(".", "messages", None, 10**30)
    with pytest.raises(LogdoctorError, match="there is no run"):
        two.excerpt(".", 10**30)


def test_a_log_that_grows_between_two_pages_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join([*LOG, *(f"odd widget {n}" for n in range(150))]) + "\n")
    tools = Tools(Roots([str(tmp_path)]))
    assert tools.lines("vllm.log", text="widget")["next"] == 105
    with log.open("a") as file:
        file.write("odd widget at the end\n")
    assert tools.lines("vllm.log", text="widget", start=105)["lines"][-1]["line"] == 155
    log.write_text(LOG[0] + "\n")
    assert tools.lines("vllm.log", text="widget", start=105) == {"lines": [], "next": None}


def test_one_item_larger_than_a_page_is_cut() -> None:
    answer = page([{"text": "x" * 10**6, "many": list(range(10**5))}, "y"])
    assert len(json.dumps(answer)) < MOST_CHARACTERS
    assert page([])["next_offset"] is None


@given(st.integers(0, 120), st.booleans())
def test_what_is_left_out_of_an_item_is_counted(size: int, named: bool) -> None:
    items: Any = {str(n): n for n in range(size)} if named else list(range(size))
    (answer,) = page([{"inner": items}])["items"]
    kept, shown = min(size, 50), answer["inner"]
    more = f"{size - kept} more"
    if named:
        assert shown == {str(n): n for n in range(kept)} | ({"…": more} if size > kept else {})
    else:
        assert shown == [*range(kept), *([f"… {more}"] if size > kept else [])]


def test_the_members_of_an_item_are_all_there_and_a_text_keeps_its_beginning() -> None:
    item = {str(n): "x" * (1999 + n % 3) for n in range(6)}
    (answer,) = page([item])["items"]
    assert list(answer) == list(item)
    assert [len(text) for text in answer.values()] == [1999, 2000, 2000] * 2
    assert [text.endswith("…") for text in answer.values()] == [False, False, True] * 2


@given(st.lists(st.integers(1, 1900), max_size=60))
def test_pages_hold_all_items_once_in_order(lengths: list[int]) -> None:
    items, offset, read = ["x" * length for length in lengths], 0, []
    while True:
        found = page(items, offset)
        assert len(found["items"]) == 1 or sum(map(len, found["items"])) <= MOST_CHARACTERS
        read += found["items"]
        if found["next_offset"] is None:
            break
        # No more of the next one would fit.
        assert sum(len(one) + 2 for one in [*found["items"], items[len(read)]]) > MOST_CHARACTERS
        offset = found["next_offset"]
    assert read == items


def test_a_log_that_grows_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(LOG[:3]) + "\n")
    tools = Tools(Roots([str(tmp_path)]))
    before = tools.analyze("vllm.log")
    with log.open("a") as file:
        file.write(LOG[3] + "\n")
    after = tools.analyze("vllm.log")
    assert (before["coverage"]["lines"], after["coverage"]["lines"]) == (3, 4)
    assert before["runs"][0]["state"] != after["runs"][0]["state"]
    assert tools.lines("vllm.log", 4)["lines"][0]["text"] == LOG[3]
    log.write_text(LOG[0] + "\n")
    assert tools.analyze("vllm.log")["coverage"]["lines"] == 1
    log.unlink()
    with pytest.raises(LogdoctorError, match="no such file"):
        tools.analyze("vllm.log")


def everything(folder: Path) -> str:
    tools = Tools(Roots([str(folder)]))
    answers: list[Any] = [
        tools.analyze("vllm.log"),
        tools.lines("vllm.log", 1, 100),
        tools.lines("vllm.log", text="odd"),
        tools.plan("vllm.log"),
    ]
    answers += [tools.analyze("vllm.log", part) for part in answers[0]["parts"]]
    answers += [
        tools.configuration("vllm.log"),
        tools.excerpt("vllm.log"),
        tools.compare("vllm.log", "vllm.log"),
    ]
    return json.dumps(answers, ensure_ascii=False, default=str)


@pytest.mark.parametrize("form", (BY_NAME + BY_PLACE)[::2])
def test_no_planted_secret_leaves(tmp_path: Path, form: str) -> None:
    secret = token()
    (tmp_path / "vllm.log").write_text(
        "\n".join(
            [
                *LOG[:3],
                f"(APIServer pid=5) WARNING 03-04 10:12:00 [odd.py:93] near {form.format(secret)} failed",
                LOG[3],
            ]
        )
    )
    assert secret not in everything(tmp_path)


@pytest.mark.parametrize("kind", BY_SHAPE)
def test_no_secret_of_a_known_shape_leaves(tmp_path: Path, kind: str) -> None:
    secret = BY_SHAPE[kind]
    (tmp_path / "vllm.log").write_text(
        "\n".join([*LOG[:3], f"(APIServer pid=5) ERROR 03-04 10:12:00 [odd.py:93] key {secret} bad", LOG[3]])
    )
    assert secret.replace("-----END RSA PRIVATE KEY-----", "")[-16:] not in everything(tmp_path)


def test_a_key_over_several_lines_is_masked_from_its_middle_on(tmp_path: Path) -> None:
    body = [("MIIEpAIBAAKCAQEA" + token(48)) for _ in range(25)]
    pem = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    (tmp_path / "vllm.log").write_text("\n".join([*LOG[:3], *pem, LOG[3]]))
    tools = Tools(Roots([str(tmp_path)]))
    shown = json.dumps([tools.lines("vllm.log", first, first + 3) for first in range(4, 30)])
    assert not [line for line in body if line in shown]
    assert tools.lines("vllm.log", text=body[12][-20:])["lines"] == []


def test_a_masked_argument_is_masked_in_every_tool(tmp_path: Path) -> None:
    arguments = ARGUMENTS.replace("'max_num_seqs'", "'api_key': ['Zq81LkP0xTt7cVb2nMw4'], 'max_num_seqs'")
    (tmp_path / "vllm.log").write_text("\n".join([LOG[0], arguments, *LOG[2:]]))
    assert "Zq81LkP0" not in everything(tmp_path)


def test_the_command_needs_a_folder(tmp_path: Path) -> None:
    refused = logdoctor("mcp", "--root", "none", cwd=tmp_path)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert logdoctor("mcp", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("name", "heading"),
    [("eager-mode", "# "), ("--max-num-seqs", "# --max-num-seqs"), ("VLLM_USE_V1", "# VLLM_USE_V1")],
)
def test_a_rule_a_flag_and_a_variable_are_explained_by_name(name: str, heading: str) -> None:
    assert run_facts(name).startswith(heading)


def test_a_page_is_filled_to_its_last_character() -> None:
    """A text of n letters takes n + 2 characters as JSON."""
    whole = ["x" * 998] * (MOST_CHARACTERS // 1000)
    rest = MOST_CHARACTERS - 1000 * len(whole)
    fits = [*whole, *(["x" * (rest - 2)] if rest else [])]
    assert page(fits)["next_offset"] is None
    assert page([*fits[:-1], fits[-1] + "x"])["next_offset"] == len(fits) - 1
