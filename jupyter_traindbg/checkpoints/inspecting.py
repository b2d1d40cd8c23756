"""What is in a checkpoint, and what an exact resume would miss in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ..language import text
from ..model import NA, CheckpointPart, Finding, Inspected, things
from .contents import Contents
from .reading import read

__all__ = ["inspect", "inspected", "not_finite"]

NAMED = 20
NEEDED = ("model", "optimizer", "scheduler", "scaler", "rng", "loader")
"""What an exact resume needs, where the job has it."""
IF_USED = ("scheduler", "scaler")
"""Not every job has these: that they are not there proves nothing."""


def inspect(path: str | os.PathLike[str]) -> Inspected:
    """What a checkpoint of torch, safetensors, Hugging Face, Lightning, DCP, accelerate, DeepSpeed or ours holds, without loading it.

    Reads headers and pickles only, executes nothing, needs no torch: milliseconds, and seconds for a hundred thousand tensors. Raises
    `UsageError` where there is nothing at `path`, `BadCheckpoint` where it cannot be read, `UnsafeCheckpoint` where loading it would run
    code.
    """
    return inspected(read(path))


def inspected(contents: Contents) -> Inspected:
    """`contents` as a result."""
    parts = [CheckpointPart(s.role, True, s.where, len(s.tensors), s.bytes, s.note) for s in contents.sections] + [
        CheckpointPart(role, False, note=_absent(role, contents)) for role in NEEDED if not contents.has(role)
    ]
    known = contents.classes is not None
    return Inspected(
        path=contents.path,
        format=contents.format,
        bytes=contents.bytes,
        files=tuple(contents.files),
        step=NA(_no_step(contents)) if contents.step is None else contents.step,
        step_from=contents.step_from,
        keys=tuple(contents.keys()),
        parts=tuple(sorted(parts, key=lambda p: NEEDED.index(p.role) if p.role in NEEDED else len(NEEDED))),
        weights_only=not contents.classes if known else NA(text("it is not a file for torch.load")),
        classes=tuple(contents.classes or ()),
        values=dict(contents.values),
        notes=tuple(contents.notes),
        verdict=tuple(_findings(contents)),
    )


def _no_step(contents: Contents) -> str:
    """Why the step is not known."""
    if contents.no_step:
        return contents.no_step
    if contents.has("optimizer"):
        return text("its optimizer keeps no count of its steps (SGD keeps none), and nothing else in it tells the step")
    return text("it holds no optimizer, and nothing else in it tells the step")


def _absent(role: str, contents: Contents) -> str:
    if role in contents.without:
        return text("the job had none")
    return text("needed only if the job used one") if role in IF_USED else text("not found")


# --- what it means -----------------------------------------------------------------------------------------------------


def _findings(contents: Contents) -> Iterator[Finding]:
    if contents.problems:
        yield _damaged(contents.problems)
    if contents.not_finite:
        yield not_finite(contents.not_finite)
    missing = [role for role in NEEDED if role not in IF_USED and not contents.has(role)]
    if contents.step is None:
        missing.append("step")
    if missing and not contents.exact:
        yield _not_resumable(missing, contents)
    elif contents.exact is False:
        yield _inexact(contents.notes)
    if contents.classes:
        yield _needs_unpickling(contents.classes, contents.refused)


def not_finite(parts: Sequence[str]) -> Finding:
    """A checkpoint, whole and readable, whose numbers are lost. `parts` says where, in words."""
    ill = "model" if any(part.startswith("model") for part in parts) else parts[0].partition(":")[0]
    return Finding(
        code="checkpoint_not_finite",
        severity="warning",
        title=text("The {ill} in it holds NaN or infinity", ill=ill),
        who=things(part.partition(":")[0] for part in parts),
        evidence=list(parts[:NAMED]),
        cause=text("The training had lost its numbers before it was saved: what goes on from here stays NaN."),
        next_steps=[
            text(
                "Go back to a checkpoint from before: `traindbg steps TARGET` shows since which step the loss is "
                "not finite."
            ),
            text("`traindbg grads TARGET --first-nan` names the module where the first one comes from."),
        ],
    )


def _damaged(problems: Sequence[str]) -> Finding:
    return Finding(
        code="checkpoint_damaged",
        severity="critical",
        title=text("Parts of it are missing or damaged: {problems}", problems=problems[0]),
        evidence=list(problems[:NAMED]),
        cause=text("It was cut short while it was written or copied, or changed later."),
        next_steps=[text("Use an older checkpoint, or copy this one again from where it was written.")],
    )


def _not_resumable(missing: Sequence[str], contents: Contents) -> Finding:
    weights = "optimizer" in missing and "model" not in missing
    return Finding(
        code="checkpoint_not_resumable",
        severity="info" if weights or "model" not in missing else "warning",
        title=text("An exact resume would miss: {missing}", missing=", ".join(missing), missing2="、".join(missing)),
        who=things(missing),
        evidence=[_what_it_does(role) for role in missing],
        cause=text("It holds the weights alone.")
        if weights and not (contents.has("rng") or contents.has("loader"))
        else text("These were not saved with it."),
        next_steps=[
            text(
                "To continue bit-identically, save with `traindbg checkpoint TARGET DIR`, which takes all of "
                "them from the live job."
            )
        ],
        confidence="medium",
    )


def _inexact(notes: Sequence[str]) -> Finding:
    return Finding(
        code="checkpoint_not_exact",
        severity="info",
        title=text("A resume from it is not bit-identical"),
        evidence=list(notes[:NAMED]),
        cause=text("So its writer noted, with the reasons."),
        next_steps=[text("Use it as it is: the weights are whole.")],
    )


def _what_it_does(role: str) -> str:
    return {
        "model": text("model: there are no weights to start from"),
        "optimizer": text("optimizer: momentum and Adam's moments begin at zero, which shows as a bump in the loss"),
        "rng": text("rng: dropout and augmentation draw other numbers"),
        "loader": text("loader: data of the interrupted epoch is seen twice or never"),
        "step": text("step: schedules and logs cannot know where they were"),
    }[role]


def _needs_unpickling(classes: Sequence[str], files: Sequence[str]) -> Finding:
    more = text(" and {count} more", count=len(classes) - 1, count2=len(classes)) if len(classes) > 1 else ""
    return Finding(
        code="checkpoint_needs_unpickling",
        severity="info",
        title=text("torch.load refuses it with weights_only=True: {classes}{more}", classes=classes[0], more=more),
        who=things(classes[:NAMED]),
        evidence=[text("in {files}", files=", ".join(files[:NAMED]), files2="、".join(files[:NAMED]))],
        cause=text("It holds objects that are no tensors or plain data; to load them, their classes' code is run."),
        next_steps=[
            text(
                "If you trust its author: `with torch.serialization.safe_globals([...the classes above...]): "
                "torch.load(path)`."
            ),
            text("Save state_dict()s and plain numbers next time."),
        ],
    )
