"""What a user may name: paths, directories, rotated sets, bytes, lines."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from threading import Thread

import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.source import Input, inputs_from, sets_of
from vllm_logdoctor.source.inputs import OTHER_FILE
from vllm_logdoctor.source.sets import servers_apart

LINE = b"INFO 03-04 10:11:12 [core.py:93] vLLM\n"


def names(inputs: list[Input]) -> list[str]:
    return [Path(source.name).name for source in inputs]


def test_a_rotated_set_is_read_oldest_first(tmp_path: Path) -> None:
    for name in ("vllm.log", "vllm.log.1", "vllm.log.10"):
        (tmp_path / name).write_bytes(LINE)
    (tmp_path / "vllm.log.2.gz").write_bytes(gzip.compress(LINE))
    assert names(inputs_from(tmp_path)) == ["vllm.log.10", "vllm.log.2.gz", "vllm.log.1", "vllm.log"]


def test_dates_in_names_grow_with_time(tmp_path: Path) -> None:
    for name in ("vllm.log", "vllm.log-20260105", "vllm.log-20260104"):
        (tmp_path / name).write_bytes(LINE)
    assert names(inputs_from(tmp_path)) == ["vllm.log-20260104", "vllm.log-20260105", "vllm.log"]


def test_a_directory_gives_the_logs_of_vllm_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "server.log").write_bytes(LINE)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    (tmp_path / "shopping.txt").write_bytes(b"milk\n")
    found = inputs_from(tmp_path)
    assert names(one for one in found if not one.kind) == ["server.log"]
    assert [(one.name.rpartition("/")[2], one.kind) for one in found if one.kind] == [
        ("shopping.txt", "text without a line of vLLM"),
        ("weights.bin", OTHER_FILE),
    ]


def test_a_directory_without_a_log_of_vllm_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shopping.txt").write_bytes(b"milk\n")
    with pytest.raises(LogdoctorError, match="no log of vLLM") as raised:
        analyse(inputs_from(tmp_path))
    assert raised.value.exit_code == 4


def test_a_path_that_does_not_exist_is_reported() -> None:
    with pytest.raises(LogdoctorError, match="no such file"):
        inputs_from("nowhere/vllm.log")


def test_lines_and_bytes_are_logs_too() -> None:
    (lines,) = inputs_from(["INFO a", "INFO b\n"])
    (data,) = inputs_from(b"INFO a\nINFO b\n")
    assert lines.data == data.data


def test_lines_are_not_taken_for_paths() -> None:
    (source,) = inputs_from(["no file has this name", "nor this"])
    assert source.data == b"no file has this name\nnor this\n"


def test_a_path_that_is_missing_among_others_is_reported_and_not_read_as_a_line(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(LINE)
    with pytest.raises(LogdoctorError, match=r"no such file: vlm\.log"):
        inputs_from([str(log), "vlm.log"])


def test_lines_stay_lines_where_one_of_them_is_the_name_of_a_file(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(LINE)
    (lines,) = inputs_from([str(log), "INFO was its level"])
    assert lines.data == f"{log}\nINFO was its level\n".encode()


def test_paths_and_names_may_be_mixed(tmp_path: Path) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_bytes(LINE)
    second.write_bytes(LINE)
    assert names(inputs_from([first, str(second)])) == ["a.log", "b.log"]


def test_bytes_beside_the_name_of_a_file_are_lines(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(LINE)
    (lines,) = inputs_from([LINE, str(log)])  # type: ignore[arg-type]
    assert lines.data == LINE + f"{log}\n".encode()


def test_an_empty_path_is_a_mistake_in_the_command() -> None:
    with pytest.raises(LogdoctorError, match="'' is no path") as raised:
        inputs_from("")
    assert raised.value.exit_code == 2


def test_an_empty_directory_holds_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="no log of vLLM in directory") as raised:
        inputs_from(tmp_path)
    assert raised.value.exit_code == 4


def test_output_and_error_of_one_job_are_one_run_set() -> None:
    one = sets_of([Input("job.o123"), Input("job.e123")])
    assert len(one) == 1
    assert len(one[0].streams) == 2


def test_files_per_rank_are_one_run_set_with_their_ranks() -> None:
    (one,) = sets_of([Input("a/rank0.log"), Input("a/rank1.log")])
    assert [stream.label for stream in one.streams] == ["rank0", "rank1"]


def test_files_of_other_names_stay_apart() -> None:
    assert len(sets_of([Input("monday.log"), Input("tuesday.log")])) == 2


def test_a_pipe_that_a_path_names_is_read_once_and_whole(tmp_path: Path) -> None:
    log = "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0\n" * 3000
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=(log,), daemon=True)
    writer.start()
    assert analyse(inputs_from(pipe)).coverage.lines == 3000


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_directory_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    with pytest.raises(LogdoctorError, match="Permission denied"):
        inputs_from(tmp_path)


@pytest.mark.parametrize(("servers", "sets"), [(0, 1), (1, 1), (2, 2)])
def test_nodes_that_each_start_a_server_are_no_ranks_of_one_run(servers: int, sets: int) -> None:
    start = b"(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2\n"
    nodes = [Input(f"node-{number}.log", data=start if number < servers else LINE) for number in range(2)]
    assert len(list(servers_apart(sets_of(nodes)))) == sets
