"""Shards written without a collective are a checkpoint that torch itself loads, with as many ranks as one likes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Start

from jupyter_traindbg.agent.checkpoint import shards
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.checkpoints import manifest as manifests


def ranks(start: Start, number: int, *args: str) -> None:
    """Run the program in `number` processes; the first one says that all went well."""
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port()), "WORLD_SIZE": str(number)}
    rest = [start("ckpt_sharded.py", *args, env={**store, "RANK": str(i)}, ready=None) for i in range(1, number)]
    first = start("ckpt_sharded.py", *args, env={**store, "RANK": "0"}, ready="done")
    ended = [program.wait(60) for program in (first, *rest)]
    assert ended == [0] * number, [program.output() for program in (first, *rest)]


def unused_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_a_deadlocked_fsdp2_job(start: Start, tmp_path: Path) -> None:
    """Rows that do not divide, a rank with nothing of a tensor, buffers, a frozen part, modules that show unsharded parameters."""
    ranks(start, 2, "save", str(tmp_path))
    ranks(start, 2, "load", str(tmp_path))
    saved = manifests.read(tmp_path / "ck")
    assert saved.sealed
    assert set(saved.files) == {".metadata", "__0_0.distcp", "__1_0.distcp", "rank-0.pt", "rank-1.pt", "training.pt"}
    full = torch.load(tmp_path / "full.pt", weights_only=True)
    reference = torch.load(tmp_path / "reference.pt", weights_only=True)
    assert torch.equal(full["optimizer.state.tiny.weight.exp_avg"], reference["optimizer.state.tiny.weight.exp_avg"])
    assert full["optimizer.param_groups"][0]["params"][:2] == ["first.weight", "first.bias"]
    training = torch.load(tmp_path / "ck" / "training.pt", weights_only=True)
    assert training["step"] == 3


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
