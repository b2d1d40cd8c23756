"""Gradients that are not finite, named by parameter, with the module that made the first NaN where one was caught; and zeros."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, FirstNonFinite, GradStat, NotAvailable, RankGrads, Subject, rank_subjects, things
from ...step_numbers import read_after
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit
from .seen import figure, seen, unseen

__all__ = ["CODES", "TOPIC", "VERB", "findings", "rule", "words"]

TOPIC = ("gradients", "梯度")
VERB = "grads"
SAMPLES = 2
"""So many norms of zero besides say that it is so at every step."""
CODES = frozenset({"nonfinite_activation", "nonfinite_gradient", "zero_gradients"})


def findings(ranks: Sequence[RankGrads]) -> list[Finding]:
    """The module that made the first NaN where one was caught, then the parameters whose gradients are not finite, then all zeros."""
    return [*_first_module(ranks), *_not_finite(ranks), *_zero(ranks)]


def rule(case: Case) -> list[Hit]:
    """The same of what a diagnosis has read. Zeros at one step are none where other steps had gradients: a batch that taught nothing."""
    norms = {v.rank: [step.grad_norm for step in s.steps if step.grad_norm is not None] for v, s in seen(case)}
    ranks = [r for r in _read(case) if not _overflowed(r)]  # how often a scaler skips its own topic tells
    still = [r for r in ranks if not any(norms[r.rank])]
    always = all(len(norms[r.rank]) >= SAMPLES for r in still)
    found = [*_first_module(ranks), *_not_finite(ranks), *_zero(still, always=always)]
    return [Hit(f, f.ranks) for f in found]


def words(case: Case) -> str | NotAvailable:
    """How many there are, and their norm."""
    ranks = _read(case)
    if not ranks:
        reasons = [g.reason for _, s in seen(case) if isinstance(g := s.grads, NotAvailable)]
        return NotAvailable(reasons[0]) if reasons else unseen(case)
    grads = [g for g in ranks[0].grads if not isinstance(g.norm, NotAvailable)]
    if _overflowed(ranks[0]):
        return NotAvailable(text("they overflow with the scaler's factor in them", "含缩放因子时溢出"))
    if not grads:
        return NotAvailable(ranks[0].note or ranks[0].at)
    norm = "-" if isinstance(ranks[0].total_norm, NotAvailable) else figure(ranks[0].total_norm)
    unread = [v.rank for v, s in seen(case) if isinstance(s.grads, NotAvailable)]
    but = text(f"; not read on {ranks_words(unread)}", f"；{ranks_words(unread)} 未读取") if unread else ""
    return (
        text(f"{len(grads)}, all finite, norm {norm}", f"{len(grads)} 个，全部有限，范数 {norm}")
        + _when(ranks[0])
        + but
    )


def _when(rank: RankGrads) -> str:
    if rank.passes is None:
        return text(" at the step", "（更新时）")
    return text(" at the end of a backward pass: no step had come", "（反向传播结束时：尚无优化器步）")


def _read(case: Case) -> list[RankGrads]:
    return [s.grads for _, s in seen(case) if not isinstance(s.grads, NotAvailable)]


def _zero(ranks: Sequence[RankGrads], *, always: bool = False) -> list[Finding]:
    """`always`: not at this step alone."""
    blamed = [r for r in ranks if _all_zero(r)]
    if not blamed:
        return []
    when = ("nothing is learned", "模型没有在学习") if always else ("this step teaches nothing", "这一步没有学到东西")
    count = sum(not isinstance(g.norm, NotAvailable) for g in blamed[0].grads)
    return [
        Finding(
            code="zero_gradients",
            severity="critical" if always else "warning",
            title=text(f"All {count} gradients are zero: {when[0]}", f"全部 {count} 个梯度均为零：{when[1]}"),
            who=rank_subjects(r.rank for r in blamed),
            evidence=[
                text(f"rank {r.rank}: norm 0, {read_after(r)}", f"rank {r.rank}：范数为 0，{read_after(r)}")
                for r in blamed[:8]
            ],
            cause=text(
                "What reaches backward() does not depend on the parameters: a mask or labels that leave nothing to make a loss of, a loss "
                "multiplied by zero, saturated activations, equal rewards in every group.",
                "传入 backward() 的值实际上不依赖参数：掩码或标签使参与 loss 的元素为空、loss 被乘以零、激活饱和，或每组奖励都相同。",
            ),
            next_steps=[
                text(
                    "Look at one batch as the loss sees it: how many labels are left after masking, and the value of the loss (`%steps`).",
                    "检查一个 batch 在计算 loss 时的样子：掩码之后还剩多少标签，以及 loss 的值（`%steps`）。",
                ),
                text(
                    "In reinforcement learning: the spread of the rewards within a group; where they are equal, every advantage is zero.",
                    "在强化学习中：检查组内奖励的方差；若都相同，则所有 advantage 为零。",
                ),
            ],
        )
    ]


def _all_zero(rank: RankGrads) -> bool:
    norms = [g.norm for g in rank.grads if not isinstance(g.norm, NotAvailable)]
    return bool(norms) and not any(norms)


def _first_module(ranks: Sequence[RankGrads]) -> list[Finding]:
    hits = [(r, r.first) for r in ranks if r.first is not None and r.first.module is not None]
    if not hits:
        return []
    _, first = hits[0]
    return [
        Finding(
            code="nonfinite_activation",
            severity="critical",
            title=text(
                f"The first non-finite output comes from module {first.module} ({first.kind})",
                f"第一个非有限输出来自模块 {first.module}（{first.kind}）",
            ),
            who=[*(Subject("rank", r.rank) for r, _ in hits), *things([str(first.module)])],
            evidence=[
                text(
                    f"its inputs were {_state(first.inputs_finite)}, its weights {_state(first.weights_finite)}",
                    f"其输入{_state(first.inputs_finite)}，其权重{_state(first.weights_finite)}",
                ),
                text(
                    f"{first.modules_seen} module calls were watched in execution order",
                    f"按执行顺序观察了 {first.modules_seen} 次模块调用",
                ),
            ],
            cause=_cause(first),
            next_steps=[_step(first)],
        )
    ]


def _state(finite: bool | NotAvailable) -> str:
    if isinstance(finite, NotAvailable):
        return text("unknown", "未知")
    return text("finite", "有限") if finite else text("not finite", "含 NaN/Inf")


def _cause(first: FirstNonFinite) -> str:
    if first.weights_finite is False:
        return text(
            "Its weights are already damaged: an earlier optimizer step applied a non-finite gradient.",
            "其权重已损坏：之前的某个优化器步使用了非有限梯度。",
        )
    if first.inputs_finite is False:
        return text(
            "Its inputs are already non-finite: look at the data, or at what runs before the first module.",
            "其输入已非有限：请检查数据，或第一个模块之前的运算。",
        )
    return text(
        "The module itself produced it from finite inputs and weights: overflow, division by zero, log of zero.",
        "模块自身由有限的输入和权重产生了它：溢出、除零或对零取对数。",
    )


def _step(first: FirstNonFinite) -> str:
    if first.weights_finite is False:
        return text(
            "Go back to a checkpoint before the damage; clip gradients and lower the learning rate from there.",
            "回到损坏之前的检查点，并从那里开始裁剪梯度、降低学习率。",
        )
    if first.inputs_finite is False:
        return text("Check the batch for NaN/Inf before the forward pass.", "在前向之前检查该 batch 是否含 NaN/Inf。")
    return text(
        "Compute this module in float32 or bfloat16, or add an epsilon where it divides or takes a logarithm.",
        "用 float32 或 bfloat16 计算该模块，或在除法、对数处加上 epsilon。",
    )


def _not_finite(ranks: Sequence[RankGrads]) -> list[Finding]:
    bad = [(r, g) for r in ranks for g in r.grads if g.nan_count or g.inf_count]
    if not bad:
        return []
    scaled = all(_overflowed(r) and (r.scale or 0.0) > 1 for r, _ in bad)  # a smaller factor overflows nothing
    names = list(dict.fromkeys(g.name for _, g in bad))
    more = text(f" and {len(names) - 1} more", f" 等 {len(names)} 个参数") if len(names) > 1 else ""
    return [
        Finding(
            code="nonfinite_gradient",
            severity="warning" if scaled else "critical",
            title=text(f"The gradient of {names[0]}{more} is not finite", f"{names[0]}{more}的梯度含 NaN/Inf"),
            who=[*(Subject("rank", n) for n in dict.fromkeys(r.rank for r, _ in bad)), *things(names[:20])],
            evidence=[_evidence(r, g) for r, g in bad[:10]],
            cause=_overflow(bad[0][0].scale)
            if scaled
            else text(
                "A non-finite loss or activation reached the backward pass, or the backward pass itself overflowed.",
                "非有限的 loss 或激活进入了反向传播，或反向传播自身溢出。",
            ),
            next_steps=[
                text(
                    "Run `%grads --first-nan`: it names the first module whose output is not finite.",
                    "运行 `%grads --first-nan`：它会指出第一个输出非有限的模块。",
                ),
                text(
                    "Under a GradScaler single overflows are normal: the scaler skips that step.",
                    "使用 GradScaler 时偶发溢出是正常的：该步会被跳过。",
                ),
            ],
        )
    ]


def _overflowed(rank: RankGrads) -> bool:
    """Whether gradients are not finite before a scaler has looked at them: it will skip that step."""
    return rank.scale is not None and any(g.nan_count or g.inf_count for g in rank.grads)


def _overflow(scale: float | None) -> str:
    factor = figure(scale)
    return text(
        f"With the GradScaler's factor {factor} still in them they overflow: it skips this step, and halves the factor. Once in a while "
        "that is normal; `diagnose` tells whether it skips every step.",
        f"梯度中仍含 GradScaler 的因子 {factor}，因而溢出：这一步会被跳过，因子减半。偶尔如此属正常；`diagnose` 会判断是否每一步都被跳过。",
    )


def _evidence(rank: RankGrads, grad: GradStat) -> str:
    return text(
        f"rank {rank.rank}, {grad.name}: {grad.nan_count} NaN, {grad.inf_count} Inf, {read_after(rank)}",
        f"rank {rank.rank}，{grad.name}：{grad.nan_count} 个 NaN，{grad.inf_count} 个 Inf，{read_after(rank)}",
    )
