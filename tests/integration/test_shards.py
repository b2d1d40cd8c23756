"""Shards written without a collective are a checkpoint that torch itself loads, with as many ranks as one likes."""

from __future__ import annotations

from pathlib import Path

import torch
from support import Start

from jupyter_traindbg.checkpoints import manifest as manifests


def ranks(start: Start, port: str, number: int, *args: str) -> None:
    """Run the program in `number` processes; the first one says that all went well."""
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(number)}
    rest = [start("ckpt_sharded.py", *args, env={**store, "RANK": str(i)}, ready=None) for i in range(1, number)]
    first = start("ckpt_sharded.py", *args, env={**store, "RANK": "0"}, ready="done")
    ended = [program.wait(60) for program in (first, *rest)]
    assert ended == [0] * number, [program.output() for program in (first, *rest)]


def test_a_deadlocked_fsdp2_job(start: Start, free_port: str, tmp_path: Path) -> None:
    """Rows that do not divide, a rank with nothing of a tensor, buffers, a frozen part, modules that show unsharded parameters."""
    ranks(start, free_port, 2, "save", str(tmp_path))
    ranks(start, free_port, 2, "load", str(tmp_path))
    saved = manifests.read(tmp_path / "ck")
    assert saved.sealed
    assert set(saved.files) == {".metadata", "__0_0.distcp", "__1_0.distcp", "rank-0.pt", "rank-1.pt", "training.pt"}
    full = torch.load(tmp_path / "full.pt", weights_only=True)
    reference = torch.load(tmp_path / "reference.pt", weights_only=True)
    assert torch.equal(full["optimizer.state.tiny.weight.exp_avg"], reference["optimizer.state.tiny.weight.exp_avg"])
    assert full["optimizer.param_groups"][0]["params"][:2] == ["first.weight", "first.bias"]
    training = torch.load(tmp_path / "ck" / "training.pt", weights_only=True)
    assert training["step"] == 3
