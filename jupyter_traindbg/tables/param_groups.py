"""A param group of an optimizer of a rank: what the schedule has set, and what the next step uses."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import LearningRates
from .base import Column, Question, Row, fields

COST = later("microseconds a group, and one search for the optimizers: 0.1 ms to 100 ms")
ASKS = (Question("lr"),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("optimizer", int, later("which optimizer of the rank, from 0")),
    Column("optimizer_class", str, later("what it is: `AdamW`")),
    Column("param_group", int, later("which of its param groups, from 0")),
    Column("lr", float, later("the learning rate that the schedule has set")),
    Column("effective_lr", float, later("the one that the next step uses")),
    Column("weight_decay", float, later("the weight decay that the program has set")),
    Column("effective_weight_decay", float, later("the one that the next step uses")),
    Column("momentum", float, later("NULL where the optimizer has none")),
    Column("betas", list[float], later("NULL where the optimizer has none")),
    Column("parameters", int, later("how many parameters are in it")),
    Column("elements", int, later("how many numbers these have")),
    Column("scheduler", str, later("what sets its learning rate")),
    Column("scheduler_step", int, later("how often that was stepped")),
    Column("next_lr", list[float], later("what it will set next")),
    Column("step", int, later("the optimizer's latest step, counted since the attach")),
    Column("optimizer_step", int, later("the same by its own count")),
)


def rows(rates: LearningRates) -> Iterator[Row]:
    for rank in rates.ranks:
        for number, optimizer in enumerate(rank.optimizers):
            of_optimizer = {
                **fields(rank, "rank", "pid"),
                **fields(optimizer, "scheduler", "scheduler_step", "step", "optimizer_step"),
                "optimizer": number,
                "optimizer_class": optimizer.optimizer,
            }
            for group in optimizer.groups:
                yield (
                    of_optimizer
                    | fields(group, "lr", "effective_lr", "weight_decay", "effective_weight_decay", "momentum", "betas")
                    | fields(group, "parameters", "elements", "next_lr")
                    | {"param_group": group.index}
                )
