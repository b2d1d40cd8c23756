"""A gather or scatter for whose root several ranks take themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from cases import each
from flight_dumps import Recorder

from jupyter_traindbg.agent import flight
from jupyter_traindbg.diagnose.collectives import findings
from jupyter_traindbg.model import Finding, RankCollectives
from jupyter_traindbg.outside.flightrec.build import rank_collectives

RANKS = range(4)
PART, ALL = [[3]], [[4, 3]]
NONE: dict[str, list[list[int]]] = {"gloo": [], "nccl": [[0]]}
"""What a recorder has of a rank that is not the root."""


def record(rank: int, op: str, roots: list[int | None], library: str, *, waits: bool, onward: bool) -> RankCollectives:
    """`roots`: for whom this rank took at each of its calls; it waits in the last of them, or has gone on."""
    made = Recorder(library, {"0": ("default_pg", RANKS)})
    for n, root in enumerate(roots, 1):
        whole = ALL if rank == root else NONE[library]
        sizes = (PART, whole) if op == "gather" else (whole, PART)
        done = not (waits and n == len(roots))
        made.call(op, input_sizes=sizes[0], output_sizes=sizes[1], done=done)
    if onward:
        made.call("all_reduce", done=False)
    now = {"now_s": made.entries[-1]["time_created_ns"] / 1e9 + 30}
    return rank_collectives(rank, 0, {**flight.summary([made.dump()]), **now}, source="dump")


def judged(op: str, roots: Mapping[int, list[int | None]], waiting: set[int], library: str = "gloo") -> list[Finding]:
    ranks = [record(r, op, roots[r], library, waits=r in waiting, onward=r not in waiting) for r in RANKS]
    return findings(ranks, world_size=4, where=dict.fromkeys(RANKS, "/a/train.py:9 collect"))


@each("op, library", [(op, library) for op in ("gather", "scatter") for library in NONE])
def test_the_one_that_was_not_the_root_before_is_to_blame(op: str, library: str) -> None:
    told = {r: [0, 0, 3 if r == 3 else 0] for r in RANKS}
    (found,) = judged(op, told, {0, 3}, library)
    assert (found.code, list(found.who), found.confidence) == ("collective_mismatch", ["rank 3"], "high")
    assert found.title == f"Rank 3 took itself for the root of {op} #3 of the default group, as rank 0 did"
    assert found.where == "/a/train.py:9 collect"
    assert "rank 0 was the root of the one before" in found.evidence


def test_without_one_before_all_of_them_are_named() -> None:
    told = {r: [r if r in (1, 3) else 1] for r in RANKS}
    (found,) = judged("gather", told, {1, 3})
    assert (list(found.who), found.confidence) == (["rank 1", "rank 3"], "medium")
    assert found.title.startswith("Ranks 1, 3 each took itself for the root")


@pytest.mark.parametrize("roots", [[0, 0, 0], [0, 1, 2]])
def test_one_root_a_call_is_as_it_should_be(roots: list[int]) -> None:
    found = judged("gather", {rank: [*roots] for rank in RANKS}, {roots[-1]})
    assert "collective_mismatch" not in [f.code for f in found]
