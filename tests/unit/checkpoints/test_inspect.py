"""`inspect` on real checkpoints of every format: keys, step, parts; damaged ones; files that are none."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from jupyter_traindbg.checkpoints import inspect  # noqa: E402
from jupyter_traindbg.errors import BadCheckpoint, TraindbgError, UnsafeCheckpoint, UsageError  # noqa: E402
from jupyter_traindbg.model import Inspected, NotAvailable  # noqa: E402

SHAPES = {
    "0.weight": (8, 4), "0.bias": (8,), "1.weight": (8,), "1.bias": (8,), "1.running_mean": (8,), "1.running_var": (8,),
    "1.num_batches_tracked": (), "2.weight": (3, 8), "2.bias": (3,),
}  # fmt: skip


def parts(result: Inspected) -> set[str]:
    return {p.role for p in result.parts if p.present}


def codes(result: Inspected) -> list[str]:
    return [f.code for f in result.findings]


# --- formats -----------------------------------------------------------------------------------------------------------

ALL = {"model", "optimizer", "scheduler", "scaler", "rng"}
FORMATS: dict[str, tuple[str, int | None, set[str], bool | None]] = {
    "full.pt": ("torch.save (zip)", 3, ALL, True),
    "legacy.pt": ("torch.save (before 1.6)", 3, ALL, True),
    "weights.pth": ("torch.save (zip)", None, {"model"}, True),
    "module.pt": ("torch.save (zip)", None, {"model"}, False),
    "module_legacy.pt": ("torch.save (before 1.6)", None, {"model"}, False),
    "model.safetensors": ("safetensors", None, {"model"}, None),
    "dcp": ("torch.distributed.checkpoint", 3, {"model", "optimizer"}, None),
    "dcp_weights": ("torch.distributed.checkpoint", None, {"model"}, None),
    "dcp_app": ("torch.distributed.checkpoint", 3, {"model", "optimizer"}, None),
    "dcp_app_step": ("torch.distributed.checkpoint", 9, {"model", "optimizer"}, None),
    "dcp_names": ("torch.distributed.checkpoint", 3, {"model", "optimizer"}, None),
    "dcp_together": ("torch.distributed.checkpoint", 3, {"model", "optimizer"}, None),
    "app.pt": ("torch.save (zip)", 3, {"model", "optimizer"}, True),
    "last.ckpt": ("Lightning, torch.save (zip)", 1204, {"model", "optimizer", "scheduler", "scaler"}, True),
    "checkpoint-500": ("Hugging Face Trainer", 500, {"model", "optimizer", "scheduler", "rng", "loader"}, False),
    "sharded": ("Hugging Face model", None, {"model"}, True),
    "deepspeed": ("DeepSpeed", 7, {"model", "optimizer"}, True),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(made: Path, name: str) -> None:
    form, step, roles, weights_only = FORMATS[name]
    result = inspect(made / name)
    assert result.format == form
    prefix = "net." if name == "last.ckpt" else ""
    assert {k.name: tuple(k.shape) for k in result.keys} == {prefix + n: s for n, s in SHAPES.items()}
    assert {k.dtype for k in result.keys} == {"float32", "int64"}
    assert sum(k.bytes for k in result.keys) == 4 * (32 + 8 * 5 + 24 + 3) + 8
    assert (None if isinstance(result.step, NotAvailable) else result.step) == step
    assert parts(result) == roles
    assert (None if isinstance(result.weights_only, NotAvailable) else result.weights_only) == weights_only
    assert "checkpoint_damaged" not in codes(result)
    assert "step" in str(result)
    if "optimizer" in roles:
        (optimizer,) = [p for p in result.parts if p.role == "optimizer"]
        assert optimizer.tensors == 18  # step, exp_avg and exp_avg_sq of six parameters
        assert optimizer.bytes == 6 * 4 + 2 * 4 * (32 + 8 * 3 + 24 + 3)


def test_a_plain_pickle_of_tensors(made: Path) -> None:
    result = inspect(made / "random_states_0.pkl")
    assert result.format == "pickle"
    assert parts(result) == {"rng"}
    assert next(p for p in result.parts if p.role == "rng").tensors == 1


def test_weights_only_says_what_torch_says(made: Path) -> None:
    for name in ("full.pt", "legacy.pt", "module.pt", "module_legacy.pt", "last.ckpt", "checkpoint-500/rng_state.pth"):
        try:
            torch.load(made / name, weights_only=True)
            loads = True
        except pickle.UnpicklingError:
            loads = False
        result = inspect(made / name)
        assert result.weights_only is loads
        assert ("checkpoint_needs_unpickling" in codes(result)) is not loads


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    shared = torch.arange(12.0).view(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, and checkpoints have them
        quantized = torch._empty_affine_quantized([3], scale=0.1, zero_point=0, dtype=torch.quint8)
    tensors = {
        "bf16": torch.ones(3).bfloat16(), "f8": torch.ones(3).to(torch.float8_e4m3fn), "u16": torch.ones(2).to(torch.uint16),
        "complex": torch.ones(2, dtype=torch.complex64), "bool": torch.ones(5, dtype=torch.bool), "scalar": torch.tensor(7),
        "empty": torch.empty(0, 5), "parameter": torch.nn.Parameter(torch.ones(2)), "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, 3, device="meta"), "quantized": quantized, "rows": shared[1:], "all": shared, "same": shared,
        "turned": shared.t(), "step": shared[2, 3],
    }  # fmt: skip
    torch.save(tensors, tmp_path / "odd.pt")
    result = inspect(tmp_path / "odd.pt")
    found = {k.name: k for k in result.keys}
    assert {n: tuple(k.shape) for n, k in found.items()} == {n: tuple(t.shape) for n, t in tensors.items()}
    assert {n: f"torch.{k.dtype}" for n, k in found.items()} == {n: str(t.dtype) for n, t in tensors.items()}
    assert [n for n, k in found.items() if k.tied_to] == ["same"]
    assert found["same"].tied_to == "all"
    assert codes(result) == ["checkpoint_not_resumable"]


def test_the_step_is_read_where_it_lies(tmp_path: Path) -> None:
    base = torch.arange(10)
    torch.save({"state_dict": {"w": torch.ones(2)}, "global_step": base[7]}, tmp_path / "a.pt")
    assert (inspect(tmp_path / "a.pt").step, inspect(tmp_path / "a.pt").step_from) == (7, "global_step in a.pt")
    torch.save(
        {"state_dict": {"w": torch.ones(2)}, "iteration": 12}, tmp_path / "b.pt", _use_new_zipfile_serialization=False
    )
    assert inspect(tmp_path / "b.pt").step == 12
    for odd in (-1, True, "soon", 1e300, float("nan"), [3]):
        torch.save({"state_dict": {"w": torch.ones(2)}, "step": odd}, tmp_path / "c.pt")
        assert isinstance(inspect(tmp_path / "c.pt").step, NotAvailable), odd


def saved_after_steps(make: Any, file: Path, **more: Any) -> Inspected:
    """A checkpoint as programs write it, after seven steps."""
    model = torch.nn.Linear(4, 2)
    optimizer = make(model.parameters(), lr=0.1)
    for _ in range(7):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **more}, file)
    return inspect(file)


def test_the_step_of_usual_checkpoints_or_why_there_is_none(tmp_path: Path) -> None:
    adam = saved_after_steps(torch.optim.AdamW, tmp_path / "adam.pt")
    assert (adam.step, adam.step_from) == (7, "the optimizer's own count (adam.pt: optimizer)")
    nano = saved_after_steps(torch.optim.SGD, tmp_path / "nano.pt", iter_num=9)
    assert (nano.step, nano.step_from) == (9, "iter_num in nano.pt")
    kept = saved_after_steps(torch.optim.SGD, tmp_path / "kept.pt", train_state={"step": 11})
    assert (kept.step, kept.step_from) == (11, "train_state.step in kept.pt")
    sgd = saved_after_steps(torch.optim.SGD, tmp_path / "sgd.pt", epoch=3)
    assert isinstance(sgd.step, NotAvailable)
    assert "keeps no count of its steps" in sgd.step.reason
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    weights = inspect(tmp_path / "weights.pt").step
    assert isinstance(weights, NotAvailable)
    assert "it holds no optimizer" in weights.reason


def test_several_optimizers_under_one_name_tell_their_step(tmp_path: Path) -> None:
    one = saved_after_steps(torch.optim.AdamW, tmp_path / "a.pt")
    assert one.step == 7
    whole = torch.load(tmp_path / "a.pt", weights_only=True)
    torch.save({**whole, "optimizer": {"adam": whole["optimizer"], "sched": {"last_epoch": 3}}}, tmp_path / "b.pt")
    assert inspect(tmp_path / "b.pt").step == 7


def test_what_an_exact_resume_would_miss(made: Path) -> None:
    (finding,) = inspect(made / "weights.pth").findings
    assert (finding.code, finding.severity) == ("checkpoint_not_resumable", "info")
    assert list(finding.who) == ["optimizer", "rng", "loader", "step"]
    assert list(inspect(made / "full.pt").findings[0].who) == ["loader"]
    torch.save({"optimizer": torch.optim.SGD([torch.ones(1)]).state_dict()}, made.parent / "only.pt")
    assert inspect(made.parent / "only.pt").findings[0].severity == "warning"


def test_many_ranks_and_layers_stay_readable(tmp_path: Path) -> None:
    for rank in range(40):
        torch.save({"python": [rank]}, tmp_path / f"rng_state_{rank}.pth")
    torch.save({f"h.{i}.mlp.weight": torch.ones(2) for i in range(1500)}, tmp_path / "pytorch_model.bin")
    result = inspect(tmp_path)
    assert len(result.keys) == 1500
    assert "h.{0-1499}.mlp.weight" in str(result)
    assert len(str(result).splitlines()) < 60
    assert any("32 more files like rng_state_N.pth were not read" in note for note in result.notes)


def test_torch_is_not_imported(made: Path) -> None:
    code = (
        "import sys; from jupyter_traindbg import checkpoints\n"
        f"for p in {[str(made / name) for name in FORMATS]!r}: checkpoints.inspect(p)\n"
        "print([m for m in ('torch', 'numpy', 'safetensors', 'tqdm') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


# --- damage ------------------------------------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere_is_an_error_or_a_finding(made: Path, tmp_path: Path) -> None:
    for name in ("full.pt", "legacy.pt", "model.safetensors"):
        whole = (made / name).read_bytes()
        file = tmp_path / name
        for length in [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
            file.write_bytes(whole[:length])
            try:
                assert "checkpoint_damaged" in codes(inspect(file)), (name, length)
            except BadCheckpoint:
                pass


def attempt(path: Path) -> None:
    """Inspect it; an error of ours, in one line, is fine."""
    try:
        inspect(path)
        said = ""
    except TraindbgError as e:
        said = str(e)
    assert "\n" not in said


def test_flipped_bits_never_raise_anything_but_our_errors(made: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    for name in ("full.pt", "legacy.pt", "module.pt", "model.safetensors", "random_states_0.pkl"):
        whole = (made / name).read_bytes()
        file = tmp_path / name
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(rng.choice([1, 1, 3, 20])):
                at = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 3000))
                data[at] ^= 1 << rng.randrange(8)
            file.write_bytes(data)
            attempt(file)


def test_flipped_bits_in_directories(made: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    for name in ("dcp", "checkpoint-500", "sharded", "deepspeed"):
        copy = tmp_path / name
        shutil.copytree(made / name, copy)
        files = [p for p in sorted(copy.rglob("*")) if p.is_file() and p.stat().st_size]
        for _ in range(40):
            file = rng.choice(files)
            whole = file.read_bytes()
            data = bytearray(whole)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(data)
            attempt(copy)
            file.write_bytes(whole)


def test_missing_and_short_pieces_of_a_directory_are_found(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "dcp", tmp_path / "dcp")
    (piece,) = (tmp_path / "dcp").glob("*.distcp")
    os.truncate(piece, piece.stat().st_size - 1)
    finding = inspect(tmp_path / "dcp").findings[0]
    assert (finding.code, finding.severity) == ("checkpoint_damaged", "critical")
    assert "is cut off" in finding.evidence[0]
    piece.unlink()
    assert "is missing" in inspect(tmp_path / "dcp").findings[0].evidence[0]

    shutil.copytree(made / "sharded", tmp_path / "sharded")
    (tmp_path / "sharded" / "pytorch_model-00002-of-00002.bin").unlink()
    result = inspect(tmp_path / "sharded")
    assert len(result.keys) == 5
    assert "pytorch_model-00002-of-00002.bin is missing" in result.findings[0].evidence[0]


def test_a_damaged_file_does_not_hide_the_others_and_a_dangerous_one_ends_it(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "checkpoint-500", tmp_path / "c")
    (tmp_path / "c" / "optimizer.pt").write_bytes(b"PK\x03\x04rubbish")
    result = inspect(tmp_path / "c")
    assert len(result.keys) == 9
    assert "optimizer.pt is a damaged zip archive" in result.findings[0].evidence[0]
    (tmp_path / "c" / "scaler.pt").write_bytes(b"\x80\x02cposix\nsystem\n.")
    with pytest.raises(UnsafeCheckpoint):
        inspect(tmp_path / "c")


# --- hostile archives ----------------------------------------------------------------------------------------------------

PICKLE = pickle.dumps({"w": 1}, 2)


def zipped(file: Path, entries: dict[str, bytes], **options: Any) -> Path:
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    bomb = {"x/data.pkl": PICKLE, "x/data/0": b"\0" * 50_000_000}
    with pytest.raises(BadCheckpoint, match="zip bomb"):
        inspect(zipped(tmp_path / "a.pt", bomb, compression=zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("name", ["../x", "x/../../y", "/etc/passwd", "x\\..\\y"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadCheckpoint, match="leads out of it"):
        inspect(zipped(tmp_path / "a.pt", {"x/data.pkl": PICKLE, name: b""}))


def test_links_in_archives_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("x/data.pkl", PICKLE)
        link = zipfile.ZipInfo("x/data/0")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(BadCheckpoint, match="symbolic link"):
        inspect(tmp_path / "a.pt")


def test_a_declared_size_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_traindbg.checkpoints import torchfile
    from jupyter_traindbg.checkpoints.pickles import Limits

    file = zipped(tmp_path / "a.pt", {"x/data.pkl": b"x" * 5000})
    with file.open("rb") as stream, pytest.raises(BadCheckpoint, match="refused as a bomb"):
        torchfile.read_zip(stream, "a.pt", Limits(bytes=1000))


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        },
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": "xx", "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 9]}},
        {"a": 7},
        [1, 2],
    ],
    ids=str,
)
def test_headers_of_safetensors_that_do_not_fit(tmp_path: Path, header: Any) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 8)
    with pytest.raises(BadCheckpoint):
        inspect(tmp_path / "a.safetensors")


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b"[" * 90_000, b"{", b"\xff\xfe"])
def test_json_of_safetensors_that_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(BadCheckpoint, match="header"):
        inspect(tmp_path / "a.safetensors")


def test_an_index_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "../secret.safetensors", "b": "/etc/passwd"}}'
    )
    evidence = inspect(tmp_path).findings[0].evidence
    assert all("outside of the directory" in line for line in evidence)
    assert len(evidence) == 2


# --- what is no checkpoint -------------------------------------------------------------------------------------------------

STRANGERS = {
    "empty.pt": (b"", "is empty"),
    "text.txt": (b"hello, this is a text", "no checkpoint of torch or safetensors"),
    "model.gguf": (b"GGUF\x03\0\0\0", "GGUF"),
    "model.h5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "model.pt.gz": (b"\x1f\x8b\x08\0", "gzip"),
    "array.npy": (b"\x93NUMPY\x01\0", "NumPy"),
    "old.tar": (b"\0" * 257 + b"ustar\x0000" + b"\0" * 100, "tar archive"),
    "lfs.safetensors.x": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    "words.docx": (b"PK\x03\x04" + b"\0" * 100, "damaged zip"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_other_files_are_named(tmp_path: Path, name: str) -> None:
    data, words = STRANGERS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadCheckpoint, match=words):
        inspect(tmp_path / name)


def test_another_zip_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"no data\.pkl"):
        inspect(zipped(tmp_path / "a.zip", {"word/document.xml": b""}))


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    for bad in (tmp_path / "nothing", "a\0b", "x" * 5000):
        with pytest.raises(UsageError) as error:
            inspect(bad)
        assert "\n" not in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no checkpoint"):
        inspect(tmp_path / "empty")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadCheckpoint, match="no regular file"):
        inspect(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError):
        inspect(tmp_path / "loop")


def test_a_directory_of_checkpoints_names_them(tmp_path: Path) -> None:
    for step in (100, 200):
        (tmp_path / f"checkpoint-{step}").mkdir()
    with pytest.raises(UsageError, match="checkpoint-100, checkpoint-200"):
        inspect(tmp_path)


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hostile = "a\n\x1b[31mb"
    for data in (
        b"\x80\x04\x8c\x02os\x8c\x09" + hostile.encode() + b"x\x93.",
        b"PK\x03\x04rubbish",
        b"\x80\x02(U\x07storagectorch\n\x1b[31mStorage\nU\x010U\x03cpuK\x01tQ.",
        b"GGUF",
    ):
        file = tmp_path / f"{hostile}.pt"
        file.write_bytes(data)
        with pytest.raises((BadCheckpoint, UnsafeCheckpoint)) as error:
            inspect(file)
        assert str(error.value).isprintable()
    os.mkdir(tmp_path / "d")
    zipped(tmp_path / "d" / f"{hostile}.pt", {"x/data.pkl": pickle.dumps({"w": 1})[:-1]})
    evidence = inspect(tmp_path / "d").findings[0].evidence
    assert all(line.isprintable() for line in evidence)


def test_both_languages(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert "精确恢复" in inspect(made / "weights.pth").findings[0].title
