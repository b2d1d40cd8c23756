"""A parameter of a rank and its gradient, read after the same step on all ranks where that can be."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..language import later
from ..model import Grads
from .base import Column, Question, Row, fields

COST = later("waits for the next step, at most the whole time; one pass over the gradients on the training thread")
ASKS = (Question("grads", waits=True),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("name", str, later("the parameter's name in the model")),
    Column("module", str, later("the module that it belongs to: its name without the last part")),
    Column("shape", list[int], later("its shape; of a sharded one the whole")),
    Column("elements", int, later("how many numbers it has")),
    Column("dtype", str, later("the type of these")),
    Column("requires_grad", bool, later("whether it is trained")),
    Column("grad_norm", float, later("the L2 norm of its gradient; of a shard where it is sharded")),
    Column("grad_max_abs", float, later("the greatest finite value in it, without its sign")),
    Column("grad_zeros_share", float, later("the share of its values that are zero, 0 to 1")),
    Column("grad_nan_count", int, later("how many of them are NaN")),
    Column("grad_inf_count", int, later("how many of them are infinite")),
    Column("after_step", int, later("the step after which it was read, counted since the attach")),
    Column("optimizer_step", int, later("the same by the optimizer's own count")),
    Column("read_when", str, later("when it was read, in words")),
)


def rows(grads: Grads) -> Iterator[Row]:
    for rank in grads.ranks:
        of_rank = {**fields(rank, "rank", "pid", "after_step", "optimizer_step"), "read_when": rank.at}
        for grad in rank.grads:
            yield (
                of_rank
                | fields(grad, "name", "shape", "dtype", "requires_grad")
                | {
                    "module": grad.name.rpartition(".")[0],
                    "elements": math.prod(grad.shape),
                    "grad_norm": grad.norm,
                    "grad_max_abs": grad.max_abs,
                    "grad_zeros_share": grad.zeros,
                    "grad_nan_count": grad.nan_count,
                    "grad_inf_count": grad.inf_count,
                }
            )
