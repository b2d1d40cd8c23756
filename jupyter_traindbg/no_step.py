"""A training whose steps do not come, or are no optimizer's: what was seen of it instead, in words. The one place for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .language import text
from .model import Meanwhile, Step

__all__ = ["by_hand", "by_hand_words", "lasts", "seen", "why"]

SLOWER, LEAST_S = 5.0, 5.0
"""A step is missed after so many usual ones, and after so many seconds."""


def by_hand(steps: Sequence[Step]) -> bool:
    """Whether the latest of `steps` is that of a training without an optimizer: a backward pass."""
    return bool(steps) and steps[-1].optimizer is None


def by_hand_words() -> str:
    return text(
        "no optimizer of torch's steps here: each backward pass counts as a step; the learning rate is the program's own affair",
        "此处没有 torch 的优化器在更新：每次反向传播计为一步；学习率由程序自行管理",
    )


def lasts(meanwhile: Meanwhile, usual_step_s: float | None) -> bool:
    """Whether no step has come for longer than one usually takes, and for `LEAST_S`."""
    return meanwhile.for_s > max(LEAST_S, SLOWER * (usual_step_s or 0.0))


def seen(meanwhile: Meanwhile) -> str:
    """``no optimizer step for 5.0 s; meanwhile 93 backward passes, the last with a loss of 0.0312``."""
    n, for_s = meanwhile.backwards, meanwhile.for_s
    told = text(f"no optimizer step for {for_s:.1f} s", f"{for_s:.1f} 秒内没有优化器步")
    if not n:
        return told + text("; no backward pass either", "；也没有反向传播")
    passes = text(f"; meanwhile {n:,} backward pass{'es' * (n > 1)}", f"；其间有 {n:,} 次反向传播")
    return told + passes + _loss(meanwhile.loss)


def _loss(loss: float | None) -> str:
    if loss is None:
        return ""
    value = f"{loss:.5g}" if math.isfinite(loss) else str(loss).replace("nan", "NaN").replace("inf", "Inf")
    return text(f", the last with a loss of {value}, as backward() was given it", f"，最后一次传入的 loss 为 {value}")


def why(meanwhile: Meanwhile) -> Iterator[str]:
    """What explains it, as far as it was seen; what to ask next."""
    stepping, skipped = meanwhile.stepping, meanwhile.scaler_skipped
    if stepping is not None and meanwhile.evaluations > 1:
        yield text(
            f"{stepping}.step() is under way, and evaluates its closure again and again",
            f"{stepping}.step() 正在进行，并反复计算其 closure",
        )
    elif stepping is not None:
        yield text(f"{stepping}.step() is under way", f"{stepping}.step() 正在进行")
    elif skipped and skipped == meanwhile.scaler_steps:
        yield text(
            f"the GradScaler was asked for {skipped} step{'s' * (skipped > 1)} and has skipped every one, since gradients overflowed; "
            "`diagnose` judges that",
            f"GradScaler 被要求更新 {skipped} 次，因梯度溢出全部跳过；`diagnose` 会给出判断",
        )
    elif meanwhile.backwards:
        yield text(
            "gradients are being accumulated; `grads` reads them at the end of a backward pass",
            "正在累积梯度；`grads` 会在一次反向传播结束时读取",
        )
    elif meanwhile.optimizers:
        made = ", ".join(dict.fromkeys(meanwhile.optimizers))
        yield text(
            f"there is an optimizer ({made}): it loads, evaluates, generates or compiles; `%stacks` shows where it is",
            f"优化器已存在（{made}）：可能在加载、评估、生成或编译；`%stacks` 显示其位置",
        )
    else:
        yield text(
            "no optimizer was found: the training has not begun, or takes its gradients from torch.autograd.grad, which is not seen; "
            "`%stacks` shows where it is",
            "没有优化器：训练尚未开始，或通过 torch.autograd.grad 求梯度（无法观察到）；`%stacks` 显示其位置",
        )
