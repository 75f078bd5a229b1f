"""Run the notebooks of the documentation and write their output: `python docs/run_notebooks.py`, without Jupyter.

It needs what the notebooks need: `pip install -e '.[plot]'`.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import pprint
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parent / "notebooks"
_RICH = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "image/png": "_repr_png_"}


def main() -> None:
    """Write the output of all notebooks."""
    import matplotlib
    import pandas

    matplotlib.use("agg")
    pandas.set_option("display.max_columns", 20)  # As in a notebook; in a terminal pandas leaves columns out.
    os.chdir(NOTEBOOKS)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        run(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False), "utf-8")


def run(notebook: dict[str, Any]) -> None:
    """Replace the output of each cell by that of today."""
    names: dict[str, Any] = {}
    for number, cell in enumerate((one for one in notebook["cells"] if one["cell_type"] == "code"), start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = value_of("".join(cell["source"]), names)
        cell["execution_count"] = number
        cell["outputs"] = []
        if printed.getvalue():
            text = printed.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text})
        if value is not None:
            cell["outputs"].append(
                {"data": _shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
            )  # fmt: skip


def value_of(code: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, which a notebook shows."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def _shown(value: Any) -> dict[str, Any]:
    """Return a value in each form that it offers, as a notebook stores it."""
    shown: dict[str, Any] = {}
    for kind, method in _RICH.items():
        found = getattr(value, method)() if hasattr(value, method) else None
        if isinstance(found, bytes):
            shown[kind] = base64.b64encode(found).decode() + "\n"
        elif found is not None:
            shown[kind] = found.splitlines(keepends=True)
    of_python = isinstance(value, (list, tuple, dict))
    plain = pprint.pformat(value, sort_dicts=False) if of_python else repr(value)
    return dict(sorted({**shown, "text/plain": plain.splitlines(keepends=True)}.items()))


if __name__ == "__main__":
    main()
