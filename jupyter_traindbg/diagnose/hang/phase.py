"""A rank that computes something of its own for long while the others wait: tokenising, preparing data. It gets on; nothing is stuck."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...language import text
from ...model import Finding, Frame
from .case import Case, Hit, View
from .doing import Doing, phrase
from .words import alike, place, ranks_words, seconds, short_place, who

__all__ = ["phase_of", "rule"]

# Library file -> what a rank is doing that passes through it; the first that fits from the outside in.
_PHASES: Sequence[tuple[str, str, str]] = (
    ("torch/_dynamo/", "compiling", "编译"),
    ("torch/_inductor/", "compiling", "编译"),
    ("torch/_functorch/", "compiling", "编译"),
    ("triton/", "compiling", "编译"),
    ("torch/serialization.py", "saving or loading a checkpoint", "保存或加载检查点"),
    ("torch/distributed/checkpoint/", "saving or loading a checkpoint", "保存或加载检查点"),
    ("safetensors/", "saving or loading a checkpoint", "保存或加载检查点"),
    ("torch/autograd/graph.py", "in its backward pass", "反向传播"),
    ("torch/optim/", "in its optimizer step", "优化器步"),
    ("torch/nn/modules/module.py", "in a forward pass", "前向传播"),
    ("torch/nn/init.py", "building its model", "构建模型"),
    ("transformers/modeling_utils.py", "loading its model", "加载模型"),
    ("<frozen importlib", "importing modules", "导入模块"),
)
_PREPARING: Sequence[tuple[str, str, str]] = (
    ("datasets/", "preparing its dataset", "准备数据集"),
    ("tokenizers/", "tokenising", "分词"),
    ("transformers/tokenization", "tokenising", "分词"),
    ("torch/utils/data/", "reading its data", "读取数据"),
)
_NAMED: Sequence[tuple[str, str, str]] = (
    (r"eval|valid|predict|generat", "evaluating", "评估"),
    (r"save|checkpoint", "saving or loading a checkpoint", "保存或加载检查点"),
)
"""What the user's own functions are called, for phases that pass through no library all the time."""


def rule(case: Case) -> list[Hit]:
    """Nothing for evaluating, saving, compiling and the training step itself: these are what others wait for in a healthy job."""
    if not case.overdue or not case.waiting:
        return []
    own = [v for v in case.roles("moving") if not any(_part_of_training(d) for d in v.doings)]
    return [
        _hit(case, same)
        for same in alike(
            [v for v in own if v.now.kind not in ("loader", "gpu")], lambda v: v.now.frame and v.now.frame.function
        )
    ]


def _part_of_training(seen: Doing) -> bool:
    return bool(_library_phase(seen, _PHASES) or _named_phase(seen))


def phase_of(view: View) -> str:
    """``compiling``, ``in a forward pass`` ...; empty where the stack passes through nothing that is known."""
    found = (_library_phase(view.now, _PHASES), _named_phase(view.now), _library_phase(view.now, _PREPARING))
    return next(filter(None, found), "")


def _library_phase(seen: Doing, phases: Sequence[tuple[str, str, str]]) -> str:
    files = [f.file for f in _frames(seen) if f.library]
    return next((text(en, zh) for part, en, zh in phases if any(part in file for file in files)), "")


def _named_phase(seen: Doing) -> str:
    names = [f.function.rsplit(".", 1)[-1].lower() for f in _frames(seen) if not f.library]
    return next((text(en, zh) for part, en, zh in _NAMED if any(re.search(part, name) for name in names)), "")


def _frames(seen: Doing) -> Sequence[Frame]:
    return seen.thread.frames if seen.thread is not None else ()


def _hit(case: Case, same: Sequence[View]) -> Hit:
    view, ranks = same[0], [v.rank for v in same]
    what, at = phase_of(view), short_place(view.now.frame)
    does = text(f"is {what}", f"正在{what}") if what else phrase(view.now)
    waited = max((v.waiting_s for v in case.waiting if v.waiting_s is not None), default=None)
    finding = Finding(
        "cpu_phase",
        "warning",
        text(
            f"{ranks_words(ranks).capitalize()} {does} at {at} while the others wait: it gets on, nothing is stuck",
            f"{ranks_words(ranks)} {does}，位于 {at}，其余 rank 在等待：它在推进，并未卡死",
        ),
        who(ranks),
        place(view.now.frame),
        [*(_words(case, v) for v in same[:4]), *case.others_wait(ranks)],
        text(
            "A long piece of work on some ranks only. The others wait for it in a collective, and their patience "
            "ends with the time-out of the "
            "process group (NCCL: 10 minutes by default, gloo: 30).",
            "只有部分 rank 在做耗时工作。其余 rank 在集合通信中等待，超过进程组超时（NCCL 默认 10 分钟，gloo 默认 "
            "30 分钟）后任务会失败。",
        ),
        [
            text(
                "Wait; look again later: `traindbg stacks` shows whether it gets on."
                + ("" if waited is None else f" The others have waited for {seconds(waited)} so far."),
                "等待并稍后再看：`traindbg stacks` 会显示它是否在推进。"
                + ("" if waited is None else f" 其余 rank 已等待 {seconds(waited)}。"),
            ),
            text(
                "If it takes longer than the time-out: do the work before the job and read its result on all ranks, "
                "share it out, or raise "
                "init_process_group(timeout=...).",
                "若耗时超过超时：在任务之前完成并让所有 rank 读取结果、分摊到各 rank，或增大 "
                "init_process_group(timeout=...)。",
            ),
        ],
    )
    return Hit(finding, ranks)


def _words(case: Case, view: View) -> str:
    training = view.training
    share = (
        "" if training is None else text(f", {training.cpu_share:.0%} of a CPU", f"，占用 {training.cpu_share:.0%} CPU")
    )
    lines = list(dict.fromkeys(short_place(d.frame) for d in view.doings if d.frame is not None))
    return text(
        f"rank {view.rank} is at {', then '.join(lines[:3])}{share}",
        f"rank {view.rank} 先后位于 {'、'.join(lines[:3])}{share}",
    )
