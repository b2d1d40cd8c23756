"""The parts of a step, as they are recorded, shown and told: the one list of them."""

from __future__ import annotations

from dataclasses import dataclass

from .language import later

__all__ = ["PARTS", "StepPart"]


@dataclass(frozen=True)
class StepPart:
    """``field``: of `jupyter_traindbg.model.Step`; ``name``: in English. ``always``: a part of every step; the others, which
    frameworks tell of, are None where a step had none.
    """

    field: str
    name: str
    always: bool = True


PARTS: tuple[StepPart, ...] = (
    StepPart("data_wait_s", later("data wait")),
    StepPart("forward_s", later("forward")),
    StepPart("backward_s", later("backward")),
    StepPart("optimizer_s", later("optimizer")),
    StepPart("other_s", later("other")),
    StepPart("generation_s", later("generation"), always=False),
    StepPart("evaluation_s", later("evaluation"), always=False),
    StepPart("saving_s", later("saving"), always=False),
)
