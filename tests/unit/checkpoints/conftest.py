"""Real checkpoints, made with torch once for all tests; tests that change one take a copy."""

from __future__ import annotations

import json
import pickle
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")


def training() -> dict[str, Any]:
    """A small model after three steps, with everything that belongs to it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(3):
        model(torch.randn(5, 4)).sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "rng": torch.get_rng_state(),
        "epoch": 2,
        "module": model,
    }


def write_safetensors(file: Path, tensors: dict[str, Any], about: dict[str, str] | None = None) -> None:
    """The format by hand, so that these tests need no more than torch."""
    names = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16"}
    header: dict[str, Any] = {"__metadata__": about} if about else {}
    data = b""
    for name, tensor in tensors.items():
        raw = bytes(tensor.contiguous().view(torch.uint8).numpy()) if tensor.dim() else struct.pack("<q", int(tensor))
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoints of many formats; not to be changed."""
    folder = tmp_path_factory.mktemp("checkpoints")
    parts = training()
    module = parts.pop("module")
    torch.save(parts, folder / "full.pt")
    torch.save(parts, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(parts["model"], folder / "weights.pth")
    torch.save(module, folder / "module.pt")
    torch.save(module, folder / "module_legacy.pt", _use_new_zipfile_serialization=False)
    write_safetensors(folder / "model.safetensors", parts["model"], {"format": "pt", "author": "ada"})
    (folder / "random_states_0.pkl").write_bytes(pickle.dumps({"random_state": random.getstate(), "cpu": parts["rng"]}))
    _dcp(folder, parts)
    _lightning(folder, parts)
    _trainer(folder, parts)
    _sharded(folder, parts)
    _deepspeed(folder, parts)
    return folder


def _dcp(folder: Path, parts: dict[str, Any]) -> None:
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {k: parts[k] for k in ("model", "optimizer", "epoch")}
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder / "dcp"), no_dist=True)
        dcp.save(parts["model"], storage_writer=dcp.FileSystemWriter(folder / "dcp_weights"), no_dist=True)
        app = {"app": {"model": parts["model"], "optim": parts["optimizer"]}}
        flat = {f"model.{name}": tensor for name, tensor in parts["model"].items()}
        for number, entry in parts["optimizer"]["state"].items():
            flat.update({f"optimizer.state.{number}.{key}": value for key, value in entry.items()})
        flat["optimizer.param_groups"] = parts["optimizer"]["param_groups"]
        for name, tree in {
            "dcp_app": app,
            "dcp_app_step": {**app, "step": torch.tensor(9)},
            "dcp_names": flat,
            "dcp_together": {**parts["model"], **parts["optimizer"]},
        }.items():
            dcp.save(tree, storage_writer=dcp.FileSystemWriter(folder / name), no_dist=True)
        torch.save(app, folder / "app.pt")


def _lightning(folder: Path, parts: dict[str, Any]) -> None:
    state = {f"net.{k}": v for k, v in parts["model"].items()}
    torch.save(
        {
            "epoch": 2, "global_step": 1204, "pytorch-lightning_version": "2.6.0", "state_dict": state, "loops": {"fit_loop": {}},
            "callbacks": {}, "optimizer_states": [parts["optimizer"]], "lr_schedulers": [parts["scheduler"]],
            "MixedPrecision": parts["scaler"],
        },
        folder / "last.ckpt",
    )  # fmt: skip


def _trainer(folder: Path, parts: dict[str, Any]) -> None:
    import numpy

    at = folder / "checkpoint-500"
    at.mkdir()
    write_safetensors(at / "model.safetensors", parts["model"])
    torch.save(parts["optimizer"], at / "optimizer.pt")
    torch.save(parts["scheduler"], at / "scheduler.pt")
    torch.save(
        {"python": random.getstate(), "numpy": numpy.random.get_state(), "cpu": parts["rng"]}, at / "rng_state.pth"
    )
    (at / "trainer_state.json").write_text(json.dumps({"global_step": 500, "epoch": 1.5}))
    (at / "config.json").write_text("{}")


def _sharded(folder: Path, parts: dict[str, Any]) -> None:
    at = folder / "sharded"
    at.mkdir()
    weight_map = {}
    for i, (name, tensor) in enumerate(parts["model"].items()):
        file = f"pytorch_model-{i % 2 + 1:05}-of-00002.bin"
        weight_map[name] = file
        shard = torch.load(at / file) if (at / file).exists() else {}
        torch.save({**shard, name: tensor}, at / file)
    (at / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def _deepspeed(folder: Path, parts: dict[str, Any]) -> None:
    at = folder / "deepspeed"
    (at / "global_step7").mkdir(parents=True)
    (at / "latest").write_text("global_step7")
    (at / "zero_to_fp32.py").write_text("")
    torch.save(
        {"module": parts["model"], "global_steps": 7, "ds_version": "0.16"},
        at / "global_step7" / "mp_rank_00_model_states.pt",
    )
    torch.save(
        {"optimizer_state_dict": parts["optimizer"], "ds_version": "0.16"},
        at / "global_step7" / "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    )
