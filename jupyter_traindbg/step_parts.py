"""The parts of a step, as they are recorded, shown and told: the one list of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PARTS", "StepPart"]


@dataclass(frozen=True)
class StepPart:
    """``field``: of `jupyter_traindbg.model.Step`; ``en`` and ``zh``: its name. ``always``: a part of every step; the others, which
    frameworks tell of, are None where a step had none.
    """

    field: str
    en: str
    zh: str
    always: bool = True


PARTS: tuple[StepPart, ...] = (
    StepPart("data_wait_s", "data wait", "数据等待"),
    StepPart("forward_s", "forward", "前向"),
    StepPart("backward_s", "backward", "反向"),
    StepPart("optimizer_s", "optimizer", "优化器"),
    StepPart("other_s", "other", "其他"),
    StepPart("generation_s", "generation", "生成", always=False),
    StepPart("evaluation_s", "evaluation", "评估", always=False),
    StepPart("saving_s", "saving", "保存", always=False),
)
