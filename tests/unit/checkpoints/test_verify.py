"""Our own checkpoints: one flipped bit anywhere is found, and so is every other way in which a copy goes wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg import checkpoints
from jupyter_traindbg.agent.checkpoint.seal import SEAL, canonical_bytes, file_bytes, seal
from jupyter_traindbg.checkpoints import manifest, verifying
from jupyter_traindbg.errors import BadCheckpoint, UsageError
from jupyter_traindbg.model import NotAvailable, Verified

FILES = {
    "model.pt": b"weights" * 3000,
    "optimizer.pt": b"moments" * 5000,
    "rank-0.pt": b"rng",
    "rank-1.pt": b"",
    "deep/x.distcp": b"shard",
}


def content(files: dict[str, bytes], **changes: Any) -> dict[str, Any]:
    listed = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "rank": 1 if name == "rank-1.pt" else 0}
        for name, data in files.items()
    }
    return {
        "format": "traindbg-checkpoint", "version": 1, "kind": "replicated", "created_s": 1790000000.25, "world_size": 2, "ranks": [0, 1],
        "step": 12, "steps": {"0": 12, "1": 12}, "mixed": False, "taken": "loop boundary", "exact": True, "notes": ["a note"],
        "versions": {"torch": "2.13.0"}, "command": ["python", "train.py", "--lr", "1e-05"], "cwd": "/home/ada", "counters": {"lr": 1e-05},
        "models": [{"class": "Net", "file": "model.pt", "parameters": 10}], "optimizers": [], "schedulers": [], "actions": [],
        "files": listed, **changes,
    }  # fmt: skip


def write(directory: Path, files: dict[str, bytes] = FILES, **changes: Any) -> Path:
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    (directory / "manifest.json").write_bytes(file_bytes(content(files, **changes)))
    return directory


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return write(tmp_path / "step-12")


def bad(result: Verified) -> dict[str, str]:
    return {f.name: f.state for f in result.files if f.state not in ("good", "extra")}


# --- the seal ------------------------------------------------------------------------------------------------------------


def test_the_seal_is_of_the_content_and_not_of_its_order() -> None:
    a = {"b": [1, 2.5, None, "ä"], "a": {"10": 1, "9": 2}, SEAL: "old"}
    b = {"a": {9: 2, 10: 1}, "b": (1, 2.5, None, "ä")}
    assert canonical_bytes(a) == canonical_bytes(b)
    assert seal(a) == {**a, SEAL: hashlib.sha256(canonical_bytes(b)).hexdigest()}
    assert json.loads(file_bytes(b)) == json.loads(json.dumps(seal(b)))
    assert file_bytes(json.loads(file_bytes(b))) == file_bytes(b)
    assert seal({**a, "b": 3})[SEAL] != seal(a)[SEAL]


# --- reading ---------------------------------------------------------------------------------------------------------------


def test_the_manifest_is_read(ours: Path) -> None:
    found = checkpoints.read_manifest(ours)
    assert found.sealed
    assert (found.kind, found.step, found.world_size, found.ranks) == ("replicated", 12, 2, (0, 1))
    assert found.steps == {0: 12, 1: 12}
    assert found.files["rank-1.pt"] == manifest.Written(0, hashlib.sha256(b"").hexdigest(), 1)
    assert found.counters == {"lr": 1e-05}


def test_without_an_own_count_the_steps_since_the_attach_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    none = {"step": None, "steps": {"0": None, "1": None}}
    sgd = write(tmp_path / "sgd", **none, since_attach={"0": 4, "1": 6})
    said = "its optimizers keep no count of their steps; it was taken after steps 4 to 6 since the attach"
    assert checkpoints.verify(sgd).step == NotAvailable(said)
    assert checkpoints.inspect(sgd).step == NotAvailable(said)
    before = write(tmp_path / "before", **none)  # written by a version that did not say
    assert checkpoints.verify(before).step == NotAvailable("its optimizers keep no count of their steps")


def test_what_is_no_checkpoint_of_ours_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing is at"):
        checkpoints.verify(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="is no directory"):
        checkpoints.verify(tmp_path / "file")
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="not a checkpoint of traindbg's"):
        checkpoints.verify(tmp_path / "other")
    (tmp_path / "other" / "manifest.json").write_text('{"format": "zarr"}')
    with pytest.raises(UsageError, match="not a checkpoint of traindbg's"):
        checkpoints.verify(tmp_path / "other")
    (tmp_path / "other" / "manifest.json").write_text("[1]")
    with pytest.raises(UsageError, match="not a checkpoint of traindbg's"):
        checkpoints.verify(tmp_path / "other")
    with pytest.raises(UsageError):
        checkpoints.verify("a\0b")


def test_an_unfinished_one_is_never_taken_for_a_good_one(tmp_path: Path) -> None:
    write(tmp_path / ".step-12.partial-abc")
    for name in ("step-12", ".step-12.partial-abc"):
        with pytest.raises(UsageError, match="never finished"):
            checkpoints.verify(tmp_path / name)
        with pytest.raises(UsageError, match="never finished"):
            checkpoints.inspect(tmp_path / name)
    with pytest.raises(UsageError, match="nothing is at"):
        checkpoints.verify(tmp_path / "step-1")  # not the beginning of another's name


def test_a_newer_version_says_so(ours: Path) -> None:
    (ours / "manifest.json").write_bytes(file_bytes(content(FILES, version=2)))
    with pytest.raises(BadCheckpoint, match="version 2"):
        checkpoints.read_manifest(ours)


# --- verifying -------------------------------------------------------------------------------------------------------------


def test_a_good_one_is_good(ours: Path) -> None:
    result = checkpoints.verify(ours)
    assert result.good
    assert result.findings == ()
    assert {f.name for f in result.files} == {*FILES, "manifest.json"}
    assert result.bytes_read == sum(map(len, FILES.values())) + (ours / "manifest.json").stat().st_size
    assert (result.step, result.kind) == (12, "replicated")
    assert "every byte is what was written" in " ".join(str(result).split())


@pytest.mark.parametrize("name", [n for n, data in FILES.items() if data])
def test_a_flipped_bit_in_a_file_is_found(ours: Path, name: str) -> None:
    rng = random.Random(name)
    size = len(FILES[name])
    for at in {0, size - 1, *(rng.randrange(size) for _ in range(25))}:
        data = bytearray(FILES[name])
        data[at] ^= 1 << rng.randrange(8)
        (ours / name).write_bytes(data)
        result = checkpoints.verify(ours)
        assert bad(result) == {name: "damaged"}
        assert not result.good
        (finding,) = result.findings
        assert (finding.code, finding.severity, list(finding.who)) == ("checkpoint_damaged", "critical", [name])


def test_a_flipped_bit_anywhere_in_the_manifest_is_found(tmp_path: Path) -> None:
    small = write(tmp_path / "small", {"model.pt": b"weights"})
    file = small / "manifest.json"
    whole = file.read_bytes()
    for at in range(len(whole)):
        for bit in {5, at % 8}:  # 5 turns 1e-05 into 1E-05, which is the same number
            data = bytearray(whole)
            data[at] ^= 1 << bit
            file.write_bytes(data)
            try:
                result = checkpoints.verify(small)
            except (BadCheckpoint, UsageError):
                continue  # its first lines no longer say that it is ours, or of which version
            assert not result.good, (at, bit, whole[at - 20 : at + 20])
            assert result.findings[0].code == "checkpoint_damaged"
            assert "manifest.json" in bad(result)
    file.write_bytes(whole)
    assert checkpoints.verify(small).good


def test_a_manifest_without_its_seal_or_written_anew_is_found(ours: Path) -> None:
    plain = content(FILES)
    (ours / "manifest.json").write_text(json.dumps(plain, indent=1, sort_keys=True))
    assert bad(checkpoints.verify(ours)) == {"manifest.json": "damaged"}
    (ours / "manifest.json").write_text(json.dumps(seal(plain)))
    assert bad(checkpoints.verify(ours)) == {"manifest.json": "damaged"}


def test_missing_short_long_and_extra_files(ours: Path) -> None:
    (ours / "model.pt").unlink()
    os.truncate(ours / "optimizer.pt", 100)
    with (ours / "rank-0.pt").open("ab") as stream:
        stream.write(b"more")
    (ours / "notes.txt").write_text("mine")
    (ours / "deep" / ".hidden").write_text("mine")
    result = checkpoints.verify(ours)
    assert bad(result) == {"model.pt": "missing", "optimizer.pt": "wrong size", "rank-0.pt": "wrong size"}
    assert [f.name for f in result.files if f.state == "extra"] == ["deep/.hidden", "notes.txt"]
    damaged, extra = result.findings
    assert (damaged.code, extra.code, extra.severity) == ("checkpoint_damaged", "checkpoint_extra_files", "info")
    assert "optimizer.pt: 100 bytes, 35000 were written" in damaged.evidence


def test_links_devices_and_names_that_lead_out_are_not_followed(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(FILES["model.pt"])
    (ours / "model.pt").unlink()
    (ours / "model.pt").symlink_to(tmp_path / "elsewhere")
    (ours / "rank-0.pt").unlink()
    os.mkfifo(ours / "rank-0.pt")
    assert bad(checkpoints.verify(ours)) == {"model.pt": "unreadable", "rank-0.pt": "unreadable"}
    out = content({"../elsewhere": b"x", "/etc/hostname": b"x"})
    (ours / "manifest.json").write_bytes(file_bytes(out))
    assert set(bad(checkpoints.verify(ours)).values()) == {"unreadable"}


def test_an_unreadable_manifest_is_a_damaged_checkpoint(ours: Path) -> None:
    whole = (ours / "manifest.json").read_bytes()
    for data in (whole[:-40], whole.replace(b'"step"', b'"stop"'), whole.replace(b'"bytes": ', b'"bytes": "x')):
        (ours / "manifest.json").write_bytes(data)
        result = checkpoints.verify(ours)
        assert bad(result) == {"manifest.json": "damaged"}
        assert result.findings[0].code == "checkpoint_damaged"
        str(result)


def test_mixed_steps_are_told(tmp_path: Path) -> None:
    result = checkpoints.verify(write(tmp_path / "m", mixed=True, step=None, steps={"0": 12, "1": 13}))
    assert result.good
    assert isinstance(result.step, NotAvailable)
    (finding,) = result.findings
    assert (finding.code, list(finding.evidence)) == ("checkpoint_mixed_steps", ["rank 0: 12, rank 1: 13"])


def test_a_progress_bar_is_shown_at_a_terminal_for_large_ones_only(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    checkpoints.verify(ours)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(verifying, "PROGRESS_FROM", 10)
    checkpoints.verify(ours)
    assert "verify" in terminal.getvalue()
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    assert checkpoints.verify(ours).good


def test_both_languages(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ours / "model.pt").unlink()
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert "与写入时不一致" in checkpoints.verify(ours).findings[0].title


# --- inspecting our own ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["replicated", "sharded"])
def test_our_own_are_inspected(tmp_path: Path, made: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    parts = torch.load(made / "full.pt", weights_only=True)
    at = tmp_path / kind
    at.mkdir()
    if kind == "replicated":
        torch.save(parts["model"], at / "model.pt")
        torch.save(parts["optimizer"], at / "optimizer.pt")
    else:
        for file in (made / "dcp").iterdir():
            shutil.copy(file, at / file.name)
    schedulers = [{"class": "CosineAnnealingLR", "optimizer": 0, "state": parts["scheduler"]}]
    named = {"class": "AdamW", "parameters": [["0.weight"]]}
    torch.save(
        {"step": 12, "models": ["Net"], "optimizers": [named], "schedulers": schedulers, "scalers": [], "actions": []},
        at / "training.pt",
    )
    for rank in (0, 1):
        boundary = {"step": 12, "where": "loop boundary", "rng": {"torch": parts["rng"]}, "loaders": [{"position": 3}]}
        torch.save({"rank": rank, "world_size": 2, "step": 12, "boundary": boundary}, at / f"rank-{rank}.pt")
    write(at, {p.name: p.read_bytes() for p in at.iterdir()}, kind=kind, schedulers=["CosineAnnealingLR"])
    result = checkpoints.inspect(at)
    assert result.format == f"traindbg checkpoint, {kind}"
    assert (result.step, result.step_from) == (12, "manifest.json")
    assert len(result.keys) == 9
    assert {p.role for p in result.parts if p.present} == {"model", "optimizer", "scheduler", "rng", "loader"}
    assert [p.role for p in result.parts if p.present].count("optimizer") == 1
    assert result.weights_only is True
    assert result.findings == ()
    assert "step" not in result.values
    assert checkpoints.verify(at).good
    inexact = json.loads((at / "manifest.json").read_bytes())
    (at / "manifest.json").write_bytes(
        file_bytes({**inexact, "exact": False, "notes": ["the loader was between two batches"]})
    )
    (finding,) = checkpoints.inspect(at).findings
    assert (finding.code, list(finding.evidence)) == ("checkpoint_not_exact", ["the loader was between two batches"])
    (at / "rank-1.pt").unlink()
    assert "rank-1.pt is missing" in checkpoints.inspect(at).findings[0].evidence
