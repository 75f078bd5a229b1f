"""The notebooks of the documentation run from end to end."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NAMES = ("one-log", "folder-of-runs")


def cells(name: str) -> Iterator[str]:
    """Yield the code of a notebook, cell by cell."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def shown_by(code: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, which a notebook shows."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def test_the_report_in_a_notebook_is_the_one_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not: python docs/run_notebooks.py"""
    monkeypatch.chdir(NOTEBOOKS)
    notebook = json.loads((NOTEBOOKS / "one-log.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    [stored] = [
        one["data"]["text/markdown"]
        for cell in code
        for one in cell["outputs"]
        if "text/markdown" in one.get("data", {})
    ]
    report = shown_by("".join(code[0]["source"]), {})
    assert "".join(stored) == report.to_markdown()


@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_from_end_to_end(name, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(NOTEBOOKS)
    names: dict[str, Any] = {}
    shown = [shown_by(code, names) for code in cells(name)]
    assert any(value._repr_html_() for value in shown if hasattr(value, "_repr_html_"))
    pictures = [value._repr_png_() for value in shown if hasattr(value, "_repr_png_")]
    assert pictures
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_names_no_place_of_a_machine(name):
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not [word for word in ("/home/", "/root/", "/work/", "/tmp/") if word in text]
