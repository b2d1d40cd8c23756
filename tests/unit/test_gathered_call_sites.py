"""What the source says of the places at which ranks issued calls of the same number."""

from __future__ import annotations

from jupyter_traindbg.gather.call_sites import Read, read
from jupyter_traindbg.model import CallSite, CallSites, Fork, Frame

FILE, CELL = "/home/ada/train.py", "/tmp/ipykernel_7/123.py"
TEXTS = {
    FILE: "def f(rank, x):\n    if rank == 0:\n        all_reduce(x)\n    else:\n        all_reduce(x)\n    all_reduce(x)\n",
    CELL: "all_reduce(1)\nall_reduce(2)\n",
}


def calls(*lines: int, file: str = FILE, cell: int | None = None) -> CallSites:
    sites = tuple(CallSite("all_reduce", (Frame(file, line, "f", cell=cell),)) for line in lines)
    return CallSites(sites, {"0": {n: n - 1 for n in range(1, len(lines) + 1)}})


def test_lines_that_exclude_each_other_and_lines_that_do_not() -> None:
    asked: list[str] = []

    def text(file: str) -> str | None:
        asked.append(file)
        return TEXTS.get(file)

    told = read([calls(3, 5, 6), calls(5, 6, 6)], text)
    assert told.forks == {(FILE, 3, 5): Fork(apart=True), (FILE, 5, 6): Fork(apart=False)}
    assert {place: line.text for place, line in told.sources.items()} == {
        f"{FILE}:{n}": "all_reduce(x)" for n in (3, 5, 6)
    }
    assert asked == [FILE]


def test_a_cell_is_read_as_a_file_is() -> None:
    told = read([calls(1, file=CELL, cell=4), calls(2, file=CELL, cell=4)], TEXTS.get)
    assert told.forks == {(CELL, 1, 2): Fork(apart=False)}
    excerpt = told.sources[f"{CELL}:2"].excerpt
    assert excerpt is not None
    assert excerpt.cell == 4


def test_nothing_is_read_where_nothing_parts_or_nobody_knows_the_file() -> None:
    def unasked(file: str) -> str | None:
        raise AssertionError(file)

    assert read([calls(3, 5), calls(3, 5)], unasked) == Read()
    assert read([calls(3), calls(5)], lambda file: None) == Read()
    assert read([calls(3), calls(5)], lambda file: "no Python (").forks == {}
