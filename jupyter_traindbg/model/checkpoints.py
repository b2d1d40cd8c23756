"""Checkpoints on disk: whether their files are what was written, what is in them, and how they differ from a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, Result
from .finding import Finding

__all__ = [
    "CheckedFile",
    "CheckpointPart",
    "Compared",
    "Inspected",
    "KeyDifference",
    "TensorKey",
    "Verified",
]


@dataclass(frozen=True)
class TensorKey:
    """One tensor of a state dict. ``shape`` is the whole tensor's, also where it is stored in shards; ``dtype`` as in ``"bfloat16"``.

    ``bytes`` counts its elements (a tied one's too); ``tied_to`` is the first name with the same memory.
    """

    name: str
    shape: Sequence[int]
    dtype: str
    bytes: int
    tied_to: str | None = None


# --- verify --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedFile:
    """One file of a checkpoint against its manifest.

    ``state`` is ``"good"``, ``"damaged"``, ``"missing"``, ``"wrong size"``, ``"unreadable"`` or ``"extra"`` (of which
    nothing is known).
    ``bytes`` is what was written, ``found_bytes`` what is there; ``rank`` wrote it, where it is one rank's.
    """

    name: str
    state: str
    bytes: Maybe[int]
    found_bytes: Maybe[int]
    rank: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Verified(Result):
    """What `checkpoint --verify` shows: every file, read again and compared with the checksum taken when it was written."""

    _rows = "files"
    path: str
    kind: str
    step: Maybe[int]
    files: Sequence[CheckedFile]
    bytes_read: int
    taken_s: float
    notes: Sequence[str] = ()
    verdict: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict

    @property
    def good(self) -> bool:
        """True where every byte is what was written."""
        return all(f.state in ("good", "extra") for f in self.files)


# --- inspect -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointPart:
    """One thing that an exact resume needs. ``role``: model, optimizer, scheduler, scaler, rng, loader, step, or what else was found.

    ``where`` is the file, and the key in it; ``present`` is False where it was looked for and not found.
    """

    role: str
    present: bool
    where: str = ""
    tensors: int = 0
    bytes: int = 0
    note: str = ""


@dataclass(frozen=True)
class Inspected(Result):
    """What `checkpoint --inspect` shows. ``keys`` are the model's tensors; those of other parts are counted in ``parts``.

    ``weights_only``: whether ``torch.load(weights_only=True)`` takes it; ``classes`` are what it would refuse, by their full names.
    ``step_from`` says where the step was read.
    """

    _rows = "keys"
    path: str
    format: str
    bytes: int
    files: Sequence[str]
    step: Maybe[int]
    step_from: str
    keys: Sequence[TensorKey]
    parts: Sequence[CheckpointPart]
    weights_only: Maybe[bool]
    classes: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    verdict: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict


# --- compare -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyDifference:
    """One key that differs: ``missing`` (only the right side has it), ``unexpected`` (only the left), ``shape`` or ``dtype``.

    ``name`` is the left side's, where it has one. ``reason`` is the code of the finding that explains it, or "".
    """

    kind: Literal["missing", "unexpected", "shape", "dtype"]
    name: str
    left: TensorKey | None
    right: TensorKey | None
    reason: str = ""


@dataclass(frozen=True)
class Compared(Result):
    """What `checkpoint --compare` shows: a checkpoint (left) against a model or another checkpoint (right).

    ``renamed`` is how the left side's names become the right's, as (taken away, put in its place); the differences are those that remain.
    """

    _rows = "differences"
    left: str
    right: str
    left_keys: int
    right_keys: int
    same: int
    differences: Sequence[KeyDifference]
    renamed: Sequence[tuple[str, str]] = ()
    verdict: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict
