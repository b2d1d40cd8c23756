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
        weights_only=not contents.classes if known else NA("it is not a file for torch.load"),
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
        return "its optimizer keeps no count of its steps (SGD keeps none), and nothing else in it tells the step"
    return "it holds no optimizer, and nothing else in it tells the step"


def _absent(role: str, contents: Contents) -> str:
    if role in contents.without:
        return text("the job had none", "该任务没有")
    return (
        text("needed only if the job used one", "仅当任务使用时才需要")
        if role in IF_USED
        else text("not found", "未找到")
    )


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
        title=text(f"The {ill} in it holds NaN or infinity", f"其中的 {ill} 含有 NaN 或无穷大"),
        who=things(part.partition(":")[0] for part in parts),
        evidence=list(parts[:NAMED]),
        cause=text(
            "The training had lost its numbers before it was saved: what goes on from here stays NaN.",
            "保存之前训练的数值已经损坏：从这里恢复后仍会是 NaN。",
        ),
        next_steps=[
            text(
                "Go back to a checkpoint from before: `traindbg steps TARGET` shows since which step the loss is not finite.",
                "请回退到更早的检查点：`traindbg steps TARGET` 会显示 loss 从哪一步起不再有限。",
            ),
            text(
                "`traindbg grads TARGET --first-nan` names the module where the first one comes from.",
                "`traindbg grads TARGET --first-nan` 可指出最先产生它的模块。",
            ),
        ],
    )


def _damaged(problems: Sequence[str]) -> Finding:
    return Finding(
        code="checkpoint_damaged",
        severity="critical",
        title=text(f"Parts of it are missing or damaged: {problems[0]}", f"部分内容缺失或损坏：{problems[0]}"),
        evidence=list(problems[:NAMED]),
        cause=text(
            "It was cut short while it was written or copied, or changed later.", "写入或复制时中断，或之后被改动。"
        ),
        next_steps=[
            text(
                "Use an older checkpoint, or copy this one again from where it was written.",
                "请使用更早的检查点，或从写入处重新复制。",
            )
        ],
    )


def _not_resumable(missing: Sequence[str], contents: Contents) -> Finding:
    weights = "optimizer" in missing and "model" not in missing
    return Finding(
        code="checkpoint_not_resumable",
        severity="info" if weights or "model" not in missing else "warning",
        title=text(f"An exact resume would miss: {', '.join(missing)}", f"精确恢复所缺少的部分：{'、'.join(missing)}"),
        who=things(missing),
        evidence=[_what_it_does(role) for role in missing],
        cause=text("It holds the weights alone.", "它只含权重。")
        if weights and not (contents.has("rng") or contents.has("loader"))
        else text("These were not saved with it.", "保存时没有包含这些内容。"),
        next_steps=[
            text(
                "To continue bit-identically, save with `traindbg checkpoint TARGET DIR`, which takes all of them from the live job.",
                "若需逐比特一致地继续，请用 `traindbg checkpoint TARGET DIR` 保存，它会从运行中的任务取得全部内容。",
            )
        ],
        confidence="medium",
    )


def _inexact(notes: Sequence[str]) -> Finding:
    return Finding(
        code="checkpoint_not_exact",
        severity="info",
        title=text("A resume from it is not bit-identical", "从它恢复不会逐比特一致"),
        evidence=list(notes[:NAMED]),
        cause=text("So its writer noted, with the reasons.", "写入者已注明原因。"),
        next_steps=[text("Use it as it is: the weights are whole.", "可照常使用：权重是完整的。")],
    )


def _what_it_does(role: str) -> str:
    return {
        "model": text("model: there are no weights to start from", "model：没有可用的权重"),
        "optimizer": text(
            "optimizer: momentum and Adam's moments begin at zero, which shows as a bump in the loss",
            "optimizer：动量与 Adam 的矩从零开始，loss 会出现波动",
        ),
        "rng": text("rng: dropout and augmentation draw other numbers", "rng：dropout 与数据增强会取到不同的随机数"),
        "loader": text(
            "loader: data of the interrupted epoch is seen twice or never",
            "loader：中断的 epoch 中的数据会重复或被跳过",
        ),
        "step": text("step: schedules and logs cannot know where they were", "step：无法得知调度与日志的位置"),
    }[role]


def _needs_unpickling(classes: Sequence[str], files: Sequence[str]) -> Finding:
    more = text(f" and {len(classes) - 1} more", f" 等 {len(classes)} 个") if len(classes) > 1 else ""
    return Finding(
        code="checkpoint_needs_unpickling",
        severity="info",
        title=text(
            f"torch.load refuses it with weights_only=True: {classes[0]}{more}",
            f"weights_only=True 时 torch.load 会拒绝它：{classes[0]}{more}",
        ),
        who=things(classes[:NAMED]),
        evidence=[text(f"in {', '.join(files[:NAMED])}", f"位于 {'、'.join(files[:NAMED])}")],
        cause=text(
            "It holds objects that are no tensors or plain data; to load them, their classes' code is run.",
            "其中含有并非张量或普通数据的对象；加载时会运行这些类的代码。",
        ),
        next_steps=[
            text(
                "If you trust its author: `with torch.serialization.safe_globals([...the classes above...]): torch.load(path)`.",
                "若信任其作者：`with torch.serialization.safe_globals([...上述类...]): torch.load(path)`。",
            ),
            text("Save state_dict()s and plain numbers next time.", "下次只保存 state_dict() 与普通数值。"),
        ],
    )
