"""What the project promises of itself: README, public names, import cost, wheel, generated pages."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vllm_logdoctor

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def command_lines(text: str) -> list[str]:
    blocks = re.findall(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_the_first_command_line_installs_and_analyses_a_bundled_log() -> None:
    first = command_lines(README)[0]
    assert "pip install" in first
    log = re.search(r"logdoctor analyze (\S+)", first)
    assert log is not None
    assert (ROOT / log[1]).is_file()


def test_the_second_command_line_passes_the_tests() -> None:
    assert command_lines(README)[1].endswith("-m pytest -n auto --dist worksteal")


def test_every_relative_link_of_the_documents_leads_somewhere_in_a_clone() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = {
        (page.name, link): page.parent / link
        for page in pages
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
    }
    assert [link for link, place in links.items() if not place.exists()] == []


def test_the_library_example_of_the_readme_says_what_it_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    example = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL)
    assert example is not None
    exec(compile(example[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == example[2]


def test_exit_codes_of_the_readme_are_those_of_the_command_line() -> None:
    from vllm_logdoctor.cli.exit_codes import ExitCode

    named = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert named == {int(code) for code in ExitCode} - {int(ExitCode.INTERNAL)}


def test_at_most_a_dozen_public_names_each_with_an_example() -> None:
    names = vllm_logdoctor.__all__
    assert len(names) <= 12
    finder = doctest.DocTestFinder(recurse=True)
    without = [
        name
        for name in names
        if not any(test.examples for test in finder.find(getattr(vllm_logdoctor, name), name))
    ]
    assert without == []


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "vllm_logdoctor" / "py.typed").is_file()


def test_a_command_imports_neither_pandas_nor_matplotlib() -> None:
    program = (
        "import sys; from vllm_logdoctor.cli import main\n"
        "sys.argv = ['logdoctor', 'analyze', 'fixtures/vllm-0.11.2-kv-starved.log', '--format', 'json']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit(bool({'pandas', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0


def test_rooms_import_in_one_direction() -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed (extra: check)")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_generated_pages_are_what_would_be_generated_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    generate = importlib.import_module("generate")
    assert generate.stale() == []


def test_the_site_names_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in site and not page.startswith("reference/patterns-")] == []


def test_no_log_or_document_names_a_place_of_the_machine_it_was_made_on() -> None:
    for path in [
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "fixtures").iterdir(),
    ]:
        assert str(Path.home()) not in path.read_text(encoding="utf-8", errors="replace") or str(
            Path.home()
        ) in ("/", "/root")


def test_the_wheel_holds_the_packs_and_what_is_compiled_from_them(tmp_path: Path) -> None:
    build = pytest.importorskip("build", reason="build is not installed (extra: check)")
    assert build
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if (
        done.returncode
        and "pip" in done.stderr + done.stdout
        and "Could not find" in done.stderr + done.stdout
    ):
        pytest.skip("the packages that build the wheel can't be installed here")
    assert done.returncode == 0, done.stdout + done.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    packed = {
        name.removeprefix("vllm_logdoctor/_patterns/")
        for name in names
        if name.startswith("vllm_logdoctor/_patterns/")
    }
    assert {"index.json", "failures.json"} <= packed
    sources = {
        path.relative_to(ROOT / "patterns").as_posix()
        for path in (ROOT / "patterns").rglob("*.*")
        if not path.name.startswith(".")
    }
    assert sources <= packed
    assert "vllm_logdoctor/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
