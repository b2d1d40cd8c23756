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
        "no optimizer of torch's steps here: each backward pass counts as a step; the learning rate is "
        "the program's own affair"
    )


def lasts(meanwhile: Meanwhile, usual_step_s: float | None) -> bool:
    """Whether no step has come for longer than one usually takes, and for `LEAST_S`."""
    return meanwhile.for_s > max(LEAST_S, SLOWER * (usual_step_s or 0.0))


def seen(meanwhile: Meanwhile) -> str:
    """``no optimizer step for 5.0 s; meanwhile 93 backward passes, the last with a loss of 0.0312``."""
    n, for_s = meanwhile.backwards, meanwhile.for_s
    told = text("no optimizer step for {for_s:.1f} s", for_s=for_s)
    if not n:
        return told + text("; no backward pass either")
    passes = text("; meanwhile {n:,} backward pass{value}", n=n, value="es" * (n > 1))
    return told + passes + _loss(meanwhile.loss)


def _loss(loss: float | None) -> str:
    if loss is None:
        return ""
    value = f"{loss:.5g}" if math.isfinite(loss) else str(loss).replace("nan", "NaN").replace("inf", "Inf")
    return text(", the last with a loss of {value}, as backward() was given it", value=value)


def why(meanwhile: Meanwhile) -> Iterator[str]:
    """What explains it, as far as it was seen; what to ask next."""
    stepping, skipped = meanwhile.stepping, meanwhile.scaler_skipped
    if stepping is not None and meanwhile.evaluations > 1:
        yield text("{stepping}.step() is under way, and evaluates its closure again and again", stepping=stepping)
    elif stepping is not None:
        yield text("{stepping}.step() is under way", stepping=stepping)
    elif skipped and skipped == meanwhile.scaler_steps:
        yield text(
            "the GradScaler was asked for {skipped} step{value} and has skipped every one, since gradients "
            "overflowed; `diagnose` judges that",
            skipped=skipped,
            value="s" * (skipped > 1),
        )
    elif meanwhile.backwards:
        yield text("gradients are being accumulated; `grads` reads them at the end of a backward pass")
    elif meanwhile.optimizers:
        made = ", ".join(dict.fromkeys(meanwhile.optimizers))
        yield text(
            "there is an optimizer ({made}): it loads, evaluates, generates or compiles; `%stacks` shows where it is",
            made=made,
        )
    else:
        yield text(
            "no optimizer was found: the training has not begun, or takes its gradients from "
            "torch.autograd.grad, which is not seen; `%stacks` shows where it is"
        )
