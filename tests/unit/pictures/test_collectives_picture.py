"""The picture of collectives: which cell says what, which rows and panels there are, what it says in words, and that nothing overlaps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import many_ranks
import pytest
from cases import each
from figure_texts import labelled, overlaps, right_edges, written
from flight_dumps import Recorder
from render_scenes_collectives import collectives, without_groups

from jupyter_traindbg.agent import flight
from jupyter_traindbg.diagnose.collectives import findings
from jupyter_traindbg.model import Collectives, Picture, RankCollectives
from jupyter_traindbg.outside.flightrec.build import rank_collectives
from jupyter_traindbg.pictures import of_result
from jupyter_traindbg.pictures.collective_grid import MOST_ROWS, NUMBERS, Cell, grid
from jupyter_traindbg.pictures.collectives import CELL_IN, LABEL_IN

EVERYBODY = {"0": ("default_pg", range(4))}
Groups = Mapping[str, tuple[str, Sequence[int]]]


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def recorders(n: int = 4, groups: Groups = EVERYBODY, steps: int = 10) -> list[Recorder]:
    """All have done `steps` calls on each of their groups."""
    made = [Recorder("nccl", {name: of for name, of in groups.items() if rank in of[1]}) for rank in range(n)]
    for recorder in made:
        for name in recorder.groups:
            recorder.call("all_reduce", name, times=steps)
    return made


def judged(made: Sequence[Recorder], *, skip: Sequence[int] = (), last: int | None = None) -> Collectives:
    newest = max((e["time_created_ns"] for r in made for e in r.entries), default=0) / 1e9
    ranks: list[RankCollectives] = []
    for rank, recorder in enumerate(made):
        summary = flight.summary([recorder.dump(last=last)], place=lambda frames: frames)
        if rank not in skip:
            ranks.append(rank_collectives(rank, 0, {**summary, "now_s": newest + 30.0}, source="dump"))
    verdict = findings(ranks, world_size=len(made), missing=skip)
    return Collectives(tuple(ranks), (), tuple(skip), len(made), tuple(verdict))


def late(rank: int = 1, *, ahead: int = 1) -> Collectives:
    """`rank` has not issued what the others wait in."""
    made = recorders()
    for other in (made[n] for n in range(4) if n != rank):
        other.call("all_reduce", times=ahead, done=False)
    return judged(made)


def cells(result: Collectives, rank: int) -> list[Cell]:
    """Of the first panel."""
    return next(list(row.cells) for row in grid(result).panels[0].rows if rank in row.ranks)


def everything(picture: Picture) -> str:
    return "\n".join([picture.title, *picture.words, *picture.details])


def answer(result: Collectives) -> str:
    [only] = of_result(result).words
    return only


def labels(picture: Picture) -> list[str]:
    """Of the rows; none of them reaches into the cells."""
    ends = {
        words: end
        for words, end in right_edges(picture.figure).items()
        if words.startswith("rank") and "·" not in words
    }
    assert max(ends.values()) < LABEL_IN - CELL_IN / 2
    return list(ends)


def blamed(picture: Picture) -> list[str]:
    """The rows with a mark before them."""
    from matplotlib.text import Text

    rows = {y for _, y in labelled(picture.figure, "blamed")}
    return [
        t.get_text() for t in picture.figure.findobj(Text) if t.get_position()[1] in rows and t.get_position()[0] < 1
    ]


# --- cells


def test_a_call_that_one_rank_never_issued() -> None:
    result = late()
    done = [Cell.COMPLETED] * 10
    assert cells(result, 0) == [*done, Cell.WAITS]
    assert cells(result, 1) == [*done, Cell.ABSENT]
    picture = of_result(result)
    assert (
        answer(result)
        == "Rank 1 has not issued all_reduce #11 of the default group, in which ranks 0, 2, 3 wait for 30 s"
    )
    assert len(labelled(picture.figure, "completed")) == 40 + 1  # and the legend
    assert len(labelled(picture.figure, "waits")) == 3 + 1
    assert len(labelled(picture.figure, "absent")) == 1 + 1
    assert "all_reduce #11  [1000] Float" in written(picture.figure)


def test_each_state_has_a_symbol_of_its_own() -> None:
    made = recorders()
    made[0].call("all_reduce", times=2, done=False)
    made[2].call("broadcast", done=False)
    drawn = [
        of_result(result).figure.axes[0] for result in (judged(made), late(ahead=3), judged(recorders(), skip=[3]))
    ]
    markers = {line.get_label(): str(line.get_marker()) for axes in drawn for line in axes.lines}
    states = [state for state in (c.value for c in Cell) if state in markers]
    assert states == ["completed", "waits", "different", "absent", "unknown"]
    assert len({markers[state] for state in states}) == len(states)


def test_calls_issued_behind_the_one_that_waits_do_not_push_it_out() -> None:
    """NCCL calls return at once: the others have queued 60 more."""
    result = late(3, ahead=60)
    panel = grid(result).panels[0]
    assert panel.numbers[panel.telling or 0] == 11
    assert len(panel.numbers) == NUMBERS
    assert cells(result, 3).count(Cell.ABSENT) == 1, "what comes after it says nothing"
    assert set(cells(result, 3)[5:]) == {Cell.LATER}


def test_another_operation_than_the_others() -> None:
    made = recorders()
    for rank in (0, 1, 3):
        made[rank].call("all_reduce", done=False)
    made[2].call("broadcast", done=False, input_sizes=[[10]])
    result = judged(made)
    assert cells(result, 2)[-1] is Cell.DIFFERENT
    assert cells(result, 0)[-1] is Cell.WAITS
    texts = written(of_result(result).figure)
    assert "broadcast [10] Float" in texts
    assert "all_reduce #11  [1000] Float" in texts


def test_another_size_than_the_others() -> None:
    made = recorders()
    for rank in range(4):
        made[rank].call("all_reduce", done=False, input_sizes=[[1000 if rank else 8]])
    result = judged(made)
    assert [cells(result, rank)[-1] for rank in range(4)] == [Cell.DIFFERENT, *[Cell.WAITS] * 3]


def test_sizes_that_differ_in_what_has_worked_are_no_mismatch() -> None:
    made = recorders()
    for rank in range(4):
        made[rank].call("all_to_all", input_sizes=[[rank]])
    assert set(cells(judged(made), 2)) == {Cell.COMPLETED}


def test_a_rank_without_a_record() -> None:
    made = recorders()
    for recorder in made:
        recorder.call("all_reduce", done=False)
    result = judged(made, skip=[2])
    assert set(cells(result, 2)) == {Cell.UNKNOWN}
    picture = of_result(result)
    assert "no record" in written(picture.figure)
    assert picture.words[0].startswith("There is no record of rank 2")
    assert "rank 2" in blamed(picture)


def test_what_a_ring_has_forgotten_was_completed_all_the_same() -> None:
    made = recorders(steps=20)
    made[0].call("all_reduce", done=False)
    full = judged(made)
    short = dataclasses.replace(full.ranks[1], calls=full.ranks[1].calls[-2:], capacity_reached=True)
    result = dataclasses.replace(full, ranks=(full.ranks[0], short, *full.ranks[2:]))
    assert cells(result, 1) == [*[Cell.COMPLETED] * 20, Cell.ABSENT]


def test_a_rank_that_does_not_know_how_far_it_has_come() -> None:
    full = late()
    unknown = dataclasses.replace(full.ranks[1].groups[0], last_issued=None, last_completed=None)
    result = dataclasses.replace(
        full, ranks=(full.ranks[0], dataclasses.replace(full.ranks[1], groups=(unknown,), calls=()), *full.ranks[2:])
    )
    assert set(cells(result, 1)) == {Cell.UNKNOWN}


# --- rows and panels


@each("ranks", [2, 3, 12, 13, 300])
def test_readable_with_any_number_of_ranks(ranks: int) -> None:
    picture = of_result(collectives(ranks))
    assert overlaps(picture.figure) == []
    assert "rank 1" in blamed(picture)
    assert len(labels(picture)) == (ranks if ranks <= 12 else 2)
    assert len(picture.drawn.svg("x")) < 60_000
    assert picture.figure.get_size_inches()[1] < 5


def test_of_many_ranks_those_that_are_alike_share_a_row_the_odd_one_first() -> None:
    result = collectives(300, late=7)
    rows = grid(result).panels[0].rows
    assert [list(row.ranks) for row in rows] == [[7], [r for r in range(300) if r != 7]]
    texts = written(of_result(result).figure)
    assert texts.index("rank 7") < texts.index("ranks 0-6, 8-299 (299)")
    assert "data.py:12 load" in texts
    assert "waits 32.3 s · train.py:88 step" in texts


def test_where_each_does_something_else_the_picture_stays_bounded() -> None:
    made = recorders(64, {"0": ("default_pg", range(64))})
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", times=rank % 20, done=False)
    result = judged(made)
    panel = grid(result).panels[0]
    assert len(panel.rows) == MOST_ROWS
    assert len(panel.more) == 64 - sum(len(row.ranks) for row in panel.rows)
    picture = of_result(result)
    assert f"{len(panel.more)} more ranks, in other states" in written(picture.figure)
    assert len(labels(picture)) == MOST_ROWS
    assert overlaps(picture.figure) == []


def test_thousands_of_ranks() -> None:
    ranks = many_ranks.collectives(3000, 77)
    result = Collectives(tuple(ranks), world_size=3000, verdict=tuple(findings(ranks, world_size=3000)))
    assert [list(row.ranks)[:2] for row in grid(result).panels[0].rows] == [[77], [0, 1]]


def tensor_parallel(pairs: int) -> Collectives:
    """The second of each pair has not issued what the first waits in."""
    groups: dict[str, Any] = {"0": ("default_pg", range(2 * pairs))}
    groups |= {str(n + 1): ("mesh_tp", [2 * n, 2 * n + 1]) for n in range(pairs)}
    made = recorders(2 * pairs, groups)
    for n in range(pairs):
        made[2 * n].call("all_gather", str(n + 1), done=False)
    return judged(made)


def test_of_several_groups_those_in_which_somebody_waits() -> None:
    result = tensor_parallel(2)
    assert [(panel.family, list(panel.ranks)) for panel in grid(result).panels] == [
        ("mesh_tp", [0, 1]),
        ("mesh_tp", [2, 3]),
    ]
    picture = of_result(result)
    assert "mesh_tp (1) · ranks 0, 1" in written(picture.figure)
    assert overlaps(picture.figure) == []


def test_of_many_groups_three() -> None:
    picture = of_result(tensor_parallel(6))
    assert len(grid(tensor_parallel(6)).panels) == 3
    assert "ranks wait in 3 more groups" in picture.details


# --- words


def test_all_have_completed_everything() -> None:
    assert answer(judged(recorders())) == "all ranks have completed everything up to #10 of the default group"
    assert set(cells(judged(recorders()), 0)) == {Cell.COMPLETED}


def test_calls_under_way_without_a_verdict() -> None:
    result = dataclasses.replace(late(), verdict=())
    assert answer(result) == "rank 1 has not issued all_reduce #11 of the default group, in which ranks 0, 2, 3 wait"


def test_nothing_to_draw_is_said() -> None:
    picture = of_result(without_groups())
    assert answer(without_groups()) == "no record of collectives"
    assert written(picture.figure) == ["no record of collectives"]


def test_sends_and_receives_have_no_columns() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(2))}) for _ in range(2)]
    made[0].call("send 0->1", done=False)
    result = dataclasses.replace(judged(made), verdict=())
    assert answer(result) == "only sends and receives are recorded, no collectives; rank 0 waits in one"
    made[0].call("all_reduce")
    made[1].call("all_reduce")
    picture = of_result(judged(made))
    assert "sends and receives are not in the picture" in picture.details
    assert len(labelled(picture.figure, "waits")) == 0


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    result = late()
    assert "没有发出默认进程组的 all_reduce #11" in everything(of_result(result))
    assert "所有 rank 均已完成默认进程组第 10 号及之前的全部调用" in everything(of_result(judged(recorders())))
