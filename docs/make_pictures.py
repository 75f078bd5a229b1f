"""Draw the first screens of ten kinds of logs: `python docs/make_pictures.py [--html]`.

Terminal pictures are SVG by rich; with --html Chromium takes PNG pictures of three HTML reports too.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from vllm_logdoctor import analyze
from vllm_logdoctor.report.first_screen import first_screen
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.terminal import screen_view

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 100
LOGS = {
    "limited-kv-cache": "vllm-0.11.2-kv-starved.log",
    "healthy": "vllm-0.32.0-healthy-serve.log",
    "failed-max-model-len": "vllm-0.32.0-fail-max-model-len-exceeds-kv-cache.log",
    "failed-port-in-use": "vllm-0.32.0-fail-port-in-use.log",
    "failed-model-not-found": "vllm-0.32.0-fail-model-path-not-found.log",
    "failed-worker-killed": "vllm-0.32.0-kill-worker-tp2.log",
    "offline": "vllm-0.16.0-offline-batch.log",
    "speculative-decoding": "vllm-0.32.0-spec-ngram.log",
    "cut-off": "vllm-0.32.0-healthy-serve.log",
    "data-parallel": "vllm-0.32.0-dp2.log",
}
CUT_OFF_AFTER = 90
"""Lines of the log of the picture "cut-off": it ends before the start-up does."""
AS_HTML = ("limited-kv-cache", "healthy", "failed-max-model-len")


def terminal_picture(name: str, log: Path) -> str:
    """Return the first screen of a log on a terminal as SVG without foreign fonts."""
    console = Console(
        width=WIDTH, file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor", highlight=False,
        markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    begin = log.read_text(encoding="utf-8").split("\n")[:CUT_OFF_AFTER]
    analysis = analyze(begin if name == "cut-off" else log).analysis
    page = Page(analysis, analysis.runs[0])
    console.print(screen_view(page, first_screen(page), WIDTH), markup=False, highlight=False)
    command = (
        f"head -{CUT_OFF_AFTER} {log.name} | logdoctor analyze -"
        if name == "cut-off"
        else f"logdoctor analyze {log.name}"
    )
    drawn = console.export_svg(title=command, unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def html_picture(log: Path, target: Path) -> None:
    """Write a picture of the top of a log's HTML report with Chromium."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium: bash tests/browser/install_chromium.sh installs it on Debian")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(analyze(log).to_html(), encoding="utf-8")
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000",
             "--window-size=1000,1000", f"--screenshot={target}", page.as_uri()],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip


def main() -> None:
    """Write all pictures."""
    for name, log in LOGS.items():
        target = PICTURES / f"first-{name}.svg"
        target.write_text(terminal_picture(name, ROOT / "fixtures" / log), encoding="utf-8")
    for name in AS_HTML if "--html" in sys.argv[1:] else ():
        html_picture(ROOT / "fixtures" / LOGS[name], PICTURES / f"first-{name}.png")


if __name__ == "__main__":
    main()
