"""Read a checkpoint of ours: checked first, loaded with ``weights_only=True``, nothing in it executed."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import checkpoints
from ..checkpoints.pickles import read_pickle
from ..errors import BadCheckpoint, UnsafeCheckpoint, UsageError
from ..language import text

TRAINING = "training.pt"
METADATA = ".metadata"
MMAP_FROM_BYTES = 16 * 1024**2
METADATA_PACKAGES = ("torch.distributed.checkpoint.", "torch.distributed.tensor.", "torch.serialization.")
METADATA_NAMES = frozenset(
    {
        "builtins.getattr",  # of a member of an enumeration: `read_pickle` refuses any other
        "collections.OrderedDict",
        "pathlib.PosixPath",
        "pathlib._local.PosixPath",
        "torch._C._get_layout",
        "torch.contiguous_format",
        "torch.memory_format",
        "torch.preserve_format",
        "torch.strided",
    }
)
"""What torch's own ``.metadata`` is made of, beside tensors and plain values."""
NO_BOUNDARY: dict[str, Any] = {"loaders": [], "rng": None}


@dataclass
class Checkpoint:
    """An opened checkpoint. Files are read when they are asked for."""

    path: Path
    sharded: bool
    world_size: int
    notes: list[str] = field(default_factory=list)
    training: Mapping[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """What ``torch.save`` put into the file `name`; large ones are mapped into memory, not read."""
        import torch

        file = self.path / name
        try:
            large = file.stat().st_size > MMAP_FROM_BYTES
            return torch.load(file, map_location="cpu", weights_only=True, mmap=large)
        except FileNotFoundError:
            raise BadCheckpoint(
                text("{name} is missing in {path}", name=name, path=self.path), text("take another checkpoint")
            ) from None
        except pickle.UnpicklingError as e:
            raise UnsafeCheckpoint(
                text(
                    "{file} holds more than tensors and plain values: {why}",
                    file=file,
                    why=_first_line(e),
                )
            ) from e
        except (OSError, RuntimeError, ValueError, EOFError, KeyError) as e:
            raise BadCheckpoint(text("{path} cannot be read: {why}", path=file, why=_first_line(e))) from e

    def boundary(self, rank: int, world_size: int) -> tuple[dict[str, Any], list[str]]:
        """What `rank` had written down at its last boundary, and what cannot be exact."""
        notes = list(self.notes)
        if world_size != self.world_size:
            notes.append(
                f"saved by {self.world_size} ranks, resumed by {world_size}: weights and optimizer are exact; random generators and loader"
                " positions belong to a rank, and the batches of the ranks are others"
            )
        if not (self.path / f"rank-{rank}.pt").exists():
            return dict(NO_BOUNDARY), [
                *notes,
                f"nothing was saved of rank {rank}: its random generators and loaders start anew",
            ]
        boundary = self.load(f"rank-{rank}.pt")["boundary"]
        if boundary is None:
            return dict(NO_BOUNDARY), [*notes, "random generators and loader positions were not saved: they start anew"]
        return boundary, [*notes, *boundary["notes"]]


def open_checkpoint(directory: str, *, verify: bool) -> Checkpoint:
    """Raises BadCheckpoint where `directory` is no checkpoint of ours, or not what was written."""
    manifest = checkpoints.read_manifest(directory)
    if verify:
        _check_sums(directory)
    if manifest.kind not in ("replicated", "sharded"):
        raise BadCheckpoint(
            text(
                "{directory} is of kind {kind!r}, which this version does not know",
                directory=directory,
                kind=manifest.kind,
            ),
            text("update jupyter-traindbg"),
        )
    checkpoint = Checkpoint(Path(directory), manifest.kind == "sharded", manifest.world_size)
    if manifest.mixed:
        steps = ", ".join(f"rank {r}: {s}" for r, s in sorted(manifest.steps.items()))
        checkpoint.notes.append(f"the ranks were at different steps ({steps}): what was loaded is of no one step")
    checkpoint.training = checkpoint.load(TRAINING)
    return checkpoint


def _check_sums(directory: str) -> None:
    verified = checkpoints.verify(directory)
    bad = [f for f in verified.files if f.state not in ("good", "extra")]
    if bad:
        named, more = text(", ").join(f"{f.name} ({f.state})" for f in bad[:3]), len(bad) - 3
        if more > 0:
            named = text("{names} and {more} more", names=named, more=more)
        raise BadCheckpoint(
            text("{directory} is not what was written: {files}", directory=directory, files=named),
            text("resume from an older checkpoint"),
        )


def check_metadata(path: Path) -> None:
    """torch unpickles ``.metadata`` without restraint: read it before it does. Raises UnsafeCheckpoint, BadCheckpoint."""
    try:
        with (path / METADATA).open("rb") as stream:
            read = read_pickle(stream, METADATA)
    except OSError as e:
        raise BadCheckpoint(text("{path} cannot be read: {why}", path=path / METADATA, why=e.strerror)) from e
    foreign = [n for n in read.foreign if not n.startswith(METADATA_PACKAGES) and n not in METADATA_NAMES]
    if foreign:
        raise UnsafeCheckpoint(
            text(
                "{metadata} of {path} names {names}, which has no place there",
                metadata=METADATA,
                path=path,
                names=text(", ").join(foreign[:3]),
            )
        )


def place(rank: int | None) -> tuple[int, int]:
    """This process's rank and the number of ranks, from the process group, else from the launcher's environment."""
    import torch.distributed as dist

    own, world_size = 0, 1
    if dist.is_available() and dist.is_initialized():
        own, world_size = dist.get_rank(), dist.get_world_size()
    elif "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        try:
            own, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except ValueError:
            raise UsageError(
                text("RANK and WORLD_SIZE in the environment are no numbers"), text("give rank=")
            ) from None
    if rank is not None and rank < 0:
        raise UsageError(text("there is no rank {rank}", rank=rank), text("ranks are counted from 0"))
    return (own if rank is None else rank), world_size


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
