"""The states that decide whether packs are compiled anew name the files that packs are compiled from."""

from __future__ import annotations

from pathlib import Path

from vllm_logdoctor.catalogue.locate import builtin_root, pack_files, page_files, states_of_files


def test_the_states_are_those_of_pack_files_and_rule_pages_in_their_order() -> None:
    root = builtin_root()
    files = [*pack_files(root), *page_files(root)]
    states = states_of_files(root)
    assert list(states) == [file.relative_to(root).as_posix() for file in files]
    assert [state.st_mtime_ns for state in states.values()] == [file.stat().st_mtime_ns for file in files]


def test_other_files_do_not_count(tmp_path: Path) -> None:
    for name in (
        "core/a.toml",
        "foreign/b.toml",
        "attention/c.toml",
        "rules/d.md",
        "e.md",
        "core/.f.toml",
        "g.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert list(states_of_files(tmp_path)) == [
        "core/a.toml",
        "attention/c.toml",
        "foreign/b.toml",
        "rules/d.md",
    ]
