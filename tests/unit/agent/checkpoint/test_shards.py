"""Which rank writes which shard, and what is refused; a real job whose ranks wait for each other: tests/integration/test_shards.py."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_traindbg.agent.checkpoint import shards
from jupyter_traindbg.agent.refused import Refused


def item(key: str, offsets: list[int], sizes: list[int], *, kind: str = "shard", size: int = 4) -> dict[str, Any]:
    whole = {"kind": kind, "dtype": "float32", "size": [size], "requires_grad": False}
    return {"key": key, **whole, "offsets": offsets, "sizes": sizes, "bytes": 4 * sizes[0]}


def test_what_several_ranks_hold_is_written_once_and_the_work_is_shared() -> None:
    halves = [item("a", [0], [2]), item("b", [0], [2])], [item("a", [2], [2]), item("b", [2], [2])]
    plain = [item("buffer", [0], [4], kind="tensor"), {"key": "groups", "kind": "bytes", "bytes": 0}]
    plans = {str(rank): [*halves[rank % 2], *plain] for rank in range(4)}  # two replicas of two shards
    merged = shards.merge(plans)
    written = [(rank, i["key"], i.get("offsets")) for rank, items in merged.items() for i in items]
    assert len(written) == 6
    assert {(key, str(offsets)) for _, key, offsets in written} == {
        ("a", "[0]"), ("a", "[2]"), ("b", "[0]"), ("b", "[2]"), ("buffer", "[0]"), ("groups", "None"),
    }  # fmt: skip
    assert {rank for rank, key, _ in written if key in ("buffer", "groups")} == {"0"}
    assert {rank for rank, key, _ in written if key in ("a", "b")} == {"0", "1", "2", "3"}


def test_a_missing_part_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="parts of a are held by no rank"):
        shards.merge({"0": [item("a", [0], [2])]})
    many = [item(f"t{i}", [0], [2]) for i in range(9)]
    with pytest.raises(Refused, match="parts of t0, t1, t2 and 6 more are held"):
        shards.merge({"0": many})


def test_ranks_that_disagree_are_refused() -> None:
    with pytest.raises(Refused, match="disagree about the shape or dtype of a"):
        shards.merge({"0": [item("a", [0], [2])], "1": [item("a", [2], [3], size=5)]})
