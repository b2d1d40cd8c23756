"""What a configuration says of a run, and what will go wrong with it on a machine: before the run.

    words of the person -> `sources` (`files`, `command`: entries as they are written) -> `planning` with the `dialects` of the
    frameworks: a `Plan` in one vocabulary -> `here`: the `Machine` -> `diagnose.config`: rules -> `ConfigPreflight`

Nothing is executed, imported or downloaded; unknown keys are passed over.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence

from ...diagnose import config as rules
from ...language import text
from ...model import ConfigPreflight, Machine, NotAvailable, Plan
from . import here, planning, sources
from .here import Described
from .shape import parameters_in_words

__all__ = ["Described", "check", "parameters_in_words"]


def check(
    words: Sequence[str],
    *,
    machine: Machine | None = None,
    described: Described = Described(),  # noqa: B008 - it is frozen
    parameters: int | None = None,
    model: str | None = None,
    timeout: float = 10.0,
) -> ConfigPreflight:
    """Judge the run that `words` describe: configuration files, Hydra's overrides, then a command line.

    `machine` None: this one, or the one that is `described`. `parameters` and `model` (a directory with a config.json, or that file)
    tell the model's size where the configuration does not. Costs 0.2 s, at most `timeout`. Raises `BadConfig` for a broken file and
    `UsageError` for one that is not there.
    """
    began = time.monotonic()
    read = sources.read(words, os.environ)
    plan = planning.plan_of(read, Machine("not looked at"), parameters=parameters, model=model)
    if machine is None:
        machine = here.machine(plan, described, timeout=timeout)
    plan = dataclasses.replace(plan, machine=machine)
    return ConfigPreflight(
        plan=plan,
        memory=rules.estimate(plan),
        verdict=tuple(rules.findings(plan)),
        notes=tuple(dict.fromkeys([*read.notes, *_notes(plan)])),
        taken_s=time.monotonic() - began,
    )


def _notes(plan: Plan) -> Iterator[str]:
    """What could not be judged, and what to say so that it can."""
    gpus = plan.machine.gpus
    if isinstance(gpus, NotAvailable):
        yield text(f"the GPUs here are not known: {gpus.reason}", f"本机 GPU 未知：{gpus.reason}")
    elif not gpus:
        yield text(
            "this machine has no GPU, so nothing is compared with one: say --gpus 8 --gpu-memory 80GiB for the one that it is to run on",
            "本机没有 GPU，未作相关比较：用 --gpus 8 --gpu-memory 80GiB 描述将要运行的机器",
        )
    if plan.files and not plan.dialects:
        yield text(
            "no key of a framework that is known was found; only words that mean the same everywhere were looked at",
            "没有发现已知框架的键；只看了通用的词",
        )
