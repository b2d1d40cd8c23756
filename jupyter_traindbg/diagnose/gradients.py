"""Gradients that are not finite, named by parameter; and ranks that should agree and do not."""

from __future__ import annotations

from collections.abc import Sequence

from ..language import text
from ..model import Finding, FirstNonFinite, NotAvailable, RankGrads


def findings(ranks: Sequence[RankGrads]) -> list[Finding]:
    """The module that made the first NaN where one was caught, then the parameters whose gradients are not finite."""
    return [*_first_module(ranks), *_not_finite(ranks)]


def _first_module(ranks: Sequence[RankGrads]) -> list[Finding]:
    hits = [(r, r.first) for r in ranks if r.first is not None and r.first.module is not None]
    if not hits:
        return []
    _, first = hits[0]
    return [
        Finding(
            code="nonfinite_activation",
            severity="critical",
            title=text(f"The first non-finite output comes from module {first.module} ({first.kind})",
                       f"第一个非有限输出来自模块 {first.module}（{first.kind}）"),
            who=[f"rank {r.rank}" for r, _ in hits] + [str(first.module)],
            evidence=[
                text(f"its inputs were {_state(first.inputs_finite, 'en')}, its weights {_state(first.weights_finite, 'en')}",
                     f"其输入{_state(first.inputs_finite, 'zh')}，其权重{_state(first.weights_finite, 'zh')}"),
                text(f"{first.modules_seen} module calls were watched in execution order", f"按执行顺序观察了 {first.modules_seen} 次模块调用"),
            ],
            cause=_cause(first),
            next_steps=_steps(first),
        )
    ]  # fmt: skip


def _state(finite: bool | NotAvailable, language: str) -> str:
    if isinstance(finite, NotAvailable):
        return "unknown" if language == "en" else "未知"
    if language == "zh":
        return "有限" if finite else "含 NaN/Inf"
    return "finite" if finite else "not finite"


def _cause(first: FirstNonFinite) -> str:
    if first.weights_finite is False:
        return text("Its weights are already damaged: an earlier optimizer step applied a non-finite gradient.",
                    "其权重已损坏：之前的某个优化器步使用了非有限梯度。")  # fmt: skip
    if first.inputs_finite is False:
        return text("Its inputs are already non-finite: look at the data, or at what runs before the first module.",
                    "其输入已非有限：请检查数据，或第一个模块之前的运算。")  # fmt: skip
    return text("The module itself produced it from finite inputs and weights: overflow, division by zero, log of zero.",
                "模块自身由有限的输入和权重产生了它：溢出、除零或对零取对数。")  # fmt: skip


def _steps(first: FirstNonFinite) -> list[str]:
    if first.weights_finite is False:
        return [text("Go back to a checkpoint before the damage; clip gradients and lower the learning rate from there.",
                     "回到损坏之前的检查点，并从那里开始裁剪梯度、降低学习率。")]  # fmt: skip
    if first.inputs_finite is False:
        return [text("Check the batch for NaN/Inf before the forward pass.", "在前向之前检查该 batch 是否含 NaN/Inf。")]
    return [text("Compute this module in float32 or bfloat16, or add an epsilon where it divides or takes a logarithm.",
                 "用 float32 或 bfloat16 计算该模块，或在除法、对数处加上 epsilon。")]  # fmt: skip


def _not_finite(ranks: Sequence[RankGrads]) -> list[Finding]:
    bad = [(r, g) for r in ranks for g in r.grads if g.nan_count or g.inf_count]
    if not bad:
        return []
    names = list(dict.fromkeys(g.name for _, g in bad))
    rank_names = [f"rank {n}" for n in dict.fromkeys(r.rank for r, _ in bad)]
    return [
        Finding(
            code="nonfinite_gradient",
            severity="critical",
            title=text(f"Gradients are not finite in {len(names)} parameter{'s' * (len(names) != 1)}: {names[0]}" + (" ..." if len(names) > 1 else ""),
                       f"{len(names)} 个参数的梯度含 NaN/Inf：{names[0]}" + ("……" if len(names) > 1 else "")),
            who=[*rank_names, *names[:20]],
            evidence=[
                text(f"rank {r.rank}, {g.name}: {g.nan_count} NaN, {g.inf_count} Inf ({r.at})", f"rank {r.rank}，{g.name}：{g.nan_count} 个 NaN，{g.inf_count} 个 Inf（{r.at}）")
                for r, g in bad[:10]
            ],
            cause=text("A non-finite loss or activation reached the backward pass, or the backward pass itself overflowed.",
                       "非有限的 loss 或激活进入了反向传播，或反向传播自身溢出。"),
            next_steps=[
                text("Run `%grads --first-nan`: it names the first module whose output is not finite.", "运行 `%grads --first-nan`：它会指出第一个输出非有限的模块。"),
                text("Under a GradScaler single overflows are normal: the scaler skips that step.", "使用 GradScaler 时偶发溢出是正常的：该步会被跳过。"),
            ],
        )
    ]  # fmt: skip
