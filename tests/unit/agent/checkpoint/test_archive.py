"""Our files are torch's: every kind of tensor comes back with its dtype, its strides and what it shares; nothing more is written."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from jupyter_traindbg.agent.checkpoint import archive, reading
from jupyter_traindbg.agent.checkpoint.arena import Arena
from jupyter_traindbg.agent.checkpoint.layout import Layout

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex64, torch.uint16, torch.uint32, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else []
    return [t for part in parts for t in tensors(part)]


def write(path: Path, tree: Any, *, live: bool) -> tuple[archive.Output, Layout]:
    layout = Layout(tensors(tree))
    arena = Arena()
    if not live:
        arena.ensure(layout.host_bytes, pin=False)
        layout.copy_into(arena)
    with path.open("wb", buffering=0) as file:
        output = archive.Output(file, lambda n: None)
        archive.write(output, tree, layout, reading.from_live if live else reading.from_snapshot)
    return output, layout


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit by bit, NaN included."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = a.detach().contiguous(), b.detach().contiguous()
    return a.numel() == 0 or torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("mmap", [True, False])
def test_every_dtype_comes_back(tmp_path: Path, live: bool, mmap: bool) -> None:
    tree = {str(d): (torch.arange(12).reshape(3, 4) % 2).to(d) for d in DTYPES}
    tree["nan"] = torch.tensor([float("nan"), float("inf"), -0.0])
    tree["zero-dim"] = torch.tensor(3.0)
    tree["empty"] = torch.empty(0, 4)
    output, _ = write(tmp_path / "t.pt", tree, live=live)
    got = torch.load(tmp_path / "t.pt", weights_only=True, mmap=mmap)
    assert got.keys() == tree.keys()
    assert [name for name in tree if not same(got[name], tree[name])] == []
    data = (tmp_path / "t.pt").read_bytes()
    assert (output.offset, output.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert zipfile.ZipFile(tmp_path / "t.pt").testzip() is None


@pytest.mark.parametrize("live", [True, False])
def test_strides_gaps_and_overlaps(tmp_path: Path, live: bool) -> None:
    matrix = torch.randn(50, 50)
    tree = {
        "channels_last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "transposed": torch.randn(3, 5).t(),
        "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 1000),
        "column": matrix[:, 3],
        "every_other": torch.randn(6, 4)[:, ::2],
        "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
        "parameter": torch.nn.Parameter(torch.randn(3)),
    }
    write(tmp_path / "t.pt", tree, live=live)
    got = torch.load(tmp_path / "t.pt", weights_only=True)
    assert [name for name in tree if not same(got[name], tree[name].resolve_conj())] == []
    for name in ("channels_last", "transposed", "expanded"):
        assert got[name].stride() == tree[name].stride()
    assert got["column"].untyped_storage().nbytes() == 200
    assert got["expanded"].untyped_storage().nbytes() == 8
    assert type(got["parameter"]) is torch.Tensor


@pytest.mark.parametrize("live", [True, False])
def test_shared_memory_stays_shared_and_a_slice_does_not_drag_the_whole_along(tmp_path: Path, live: bool) -> None:
    flat = torch.randn(1_000_000)
    tied = torch.nn.Parameter(torch.randn(4, 4))
    tree = {
        "a": flat[10:20],
        "b": flat[15:30],
        "c": flat[100:200].view(10, 10),
        "tied": [tied, tied.detach(), tied.t()],
    }
    output, layout = write(tmp_path / "t.pt", tree, live=live)
    got = torch.load(tmp_path / "t.pt", weights_only=True)
    assert layout.nbytes == 4 * (20 + 100 + 16)
    assert output.offset < 4000
    got["a"][5:] = 7.0
    assert torch.all(got["b"][:5] == 7.0)
    got["tied"][0][0, 1] = 9.0
    assert got["tied"][1][0, 1] == got["tied"][2][1, 0] == 9.0


def test_one_memory_under_two_dtypes_is_written_where_torch_itself_refuses(tmp_path: Path) -> None:
    numbers = torch.arange(4, dtype=torch.int32)
    tree = [numbers, numbers.view(torch.float32)]
    with pytest.raises(RuntimeError):
        torch.save(tree, tmp_path / "torch.pt")
    write(tmp_path / "t.pt", tree, live=True)
    assert all(same(a, b) for a, b in zip(torch.load(tmp_path / "t.pt", weights_only=True), tree, strict=True))


def test_sparse(tmp_path: Path) -> None:
    with torch.sparse.check_sparse_tensor_invariants():
        tree = {"s": torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (4,))}
        write(tmp_path / "t.pt", tree, live=True)
        got = torch.load(tmp_path / "t.pt", weights_only=True)["s"]
        assert torch.equal(got.to_dense(), tree["s"].to_dense())


def test_a_record_of_more_than_4_gib_has_long_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BIG", 16)
    tree = {"a": torch.randn(100), "b": torch.randn(3, 3)}
    write(tmp_path / "t.pt", tree, live=True)
    for mmap in (True, False):
        got = torch.load(tmp_path / "t.pt", weights_only=True, mmap=mmap)
        assert all(same(got[name], tree[name]) for name in tree)


def test_the_data_of_storages_are_aligned(tmp_path: Path) -> None:
    write(tmp_path / "t.pt", [torch.randn(n) for n in (1, 3, 77)], live=True)
    reader = torch._C.PyTorchFileReader(str(tmp_path / "t.pt"))
    assert [reader.get_record_offset(f"data/{i}") % 64 for i in range(3)] == [0, 0, 0]


def test_a_tensor_that_moves_while_it_is_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 64)
    tensor = torch.randn(1000)
    layout = Layout([tensor])
    pieces = reading.from_live(layout.stores[0])
    next(pieces)
    layout.stores[0].source.set_(torch.randn(1000))
    fresh = reading.from_live(layout.stores[0])
    assert bytes(next(fresh)) == tensor[:16].numpy().tobytes()
    gone = torch.randn(1000)
    held = reading._memory(gone)
    next(held)
    gone.set_(torch.randn(1000))
    with pytest.raises(reading.Changed, match="moved the memory"):
        next(held)
