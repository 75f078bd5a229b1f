"""Places that print tracebacks are remembered in bounded memory."""

from __future__ import annotations

from unittest.mock import patch

from vllm_logdoctor.scan import LineFilter, Scanner, Selector, WantedLine, build_prefilter, line_selection
from vllm_logdoctor.source import Chunk

TRACEBACK = (
    "(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:{n}] Traceback (most recent call last):\n"
    '(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:{n}]   File "/opt/engine.py", line {n}, in step\n'
    "(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:{n}] ValueError: step {n}\n"
    + "quiet\n" * 30
)  # fmt: skip


def frames_of(places: int) -> int:
    """Return how many frame lines are selected of tracebacks that stand at so many places."""
    data = ("quiet\n" * 200 + "".join(TRACEBACK.format(n=100 + number) for number in range(places))).encode()
    selector = Selector(Scanner(build_prefilter(["nothing of this"]), LineFilter()))
    wanted = [item for item in selector.select(Chunk(0, 1, data)) if isinstance(item, WantedLine)]
    return sum(b"  File " in line.data for line in wanted)


def test_frames_of_tracebacks_are_read_up_to_a_number_of_places() -> None:
    with patch.object(line_selection, "_MOST_PLACES", 20):
        assert frames_of(20) == 20
        assert frames_of(50) == 20


def test_a_place_that_prints_tracebacks_is_known_by_what_is_before_them_but_for_clock_and_process() -> None:
    def place(head: str) -> bytes:
        return line_selection._place(head.encode() + b" Traceback (most recent call last):")

    one = place("(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:708]")
    assert place("(EngineCore_DP1 pid=12) ERROR 05-02 11:30:59 [core.py:708]") == one
    assert place("(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:709]") != one
    assert place("(APIServer pid=9) ERROR 05-01 10:00:00 [core.py:708]") != one
    assert place("node3") == place("node7") != place("host3")


def boxed(lines: int) -> bytes:
    """Return the line of a frame as rich prints it in a box, behind so many other lines of the box."""
    return (
        "│ code │\n" * lines + "│ /opt/vllm/engine/llm_engine.py:313 in step │\n" + "quiet\n" * 99
    ).encode()


def test_a_box_at_the_head_of_a_file_is_read_to_its_end_though_its_first_line_is_not_there() -> None:
    selector = Selector(Scanner(build_prefilter(["nothing of this"]), LineFilter()))
    data = [item.data for item in selector.select(Chunk(0, 1, boxed(300))) if isinstance(item, WantedLine)]
    assert sum(b"in step" in line for line in data) == 1
    assert sum(line == b"quiet" for line in data) <= 1


def test_boxes_without_end_are_read_in_bounded_memory() -> None:
    selector = Selector(Scanner(build_prefilter(["nothing of this"]), LineFilter()))
    assert sum(1 for _ in selector.select(Chunk(0, 1, boxed(5000)))) < 1000
