"""What a configuration says of a run, and what will go wrong with it on a machine: before the run.

    words of the person -> `sources` (`files`, `command`: entries as they are written) -> `planning` with the `dialects` of the
    frameworks: a `Plan` in one vocabulary -> `here` or `on_ray`: the `Machine` -> `diagnose.config`: rules -> `ConfigPreflight`

Nothing is executed, imported or downloaded (but a worker that is to be timed, on a Ray cluster); unknown keys are passed over.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence

from ...diagnose import config as rules
from ...diagnose.config import ray_start
from ...language import text
from ...model import ConfigPreflight, Machine, NotAvailable, Plan
from . import here, on_ray, planning, sources
from .here import Described
from .on_ray import OnRay, Worker
from .shape import parameters_in_words

__all__ = ["Described", "OnRay", "Worker", "check", "parameters_in_words"]


def check(
    words: Sequence[str],
    *,
    machine: Machine | None = None,
    described: Described = Described(),  # noqa: B008 - it is frozen
    parameters: int | None = None,
    model: str | None = None,
    ray: OnRay | None = None,
    timeout: float = 10.0,
) -> ConfigPreflight:
    """Judge the run that `words` describe: configuration files, Hydra's overrides, then a command line.

    `machine` None: this one, or the one that is `described`, or the nodes of the `ray` cluster. `parameters` and `model` (a directory with
    a config.json, or that file) tell the model's size where the configuration does not. Costs 0.2 s, and what a worker takes that is
    to be timed; at most `timeout`. Raises `BadConfig` for a broken file, `UsageError` for one that is not there, and where a cluster
    does not answer what `raystate` raises.
    """
    began = time.monotonic()
    read = sources.read(words, os.environ)
    plan = planning.plan_of(read, Machine("not looked at"), parameters=parameters, model=model)
    told: Sequence[str] = ()
    if ray is not None:
        plan = on_ray.said_of_workers(plan, read, ray)
        wanted = on_ray.wanted_of(ray.worker, plan, read) if ray.worker is not None else None
        at, cluster = on_ray.cluster_at(ray.address, timeout)
        machine, told = machine or on_ray.machine_of(cluster, plan, described), cluster.notes
        if wanted is not None:
            plan = on_ray.tried(plan, wanted, at, cluster, timeout - (time.monotonic() - began))
    if machine is None:
        machine = here.machine(plan, described, timeout=timeout)
    plan = dataclasses.replace(plan, machine=machine)
    return ConfigPreflight(
        plan=plan,
        memory=rules.estimate(plan),
        verdict=tuple(rules.findings(plan)),
        notes=tuple(dict.fromkeys([*read.notes, *told, *_notes(plan)])),
        taken_s=time.monotonic() - began,
        fits=ray_start.fitting(plan),
        start_s=ray_start.start_s(plan),
    )


def _notes(plan: Plan) -> Iterator[str]:
    """What could not be judged, and what to say so that it can."""
    gpus = plan.machine.gpus
    if plan.machine.ray_nodes:
        yield from _of_ray(plan)
        return
    if isinstance(gpus, NotAvailable):
        yield text("the GPUs here are not known: {reason}", reason=gpus.reason)
    elif not gpus:
        yield text(
            "this machine has no GPU, so nothing is compared with one: say `--gpus 8 --gpu-memory 80GiB` for "
            "the one that it is to run on"
        )
    if plan.files and not plan.dialects:
        yield text(
            "no key of a framework that is known was found; only words that mean the same everywhere were looked at"
        )


def _of_ray(plan: Plan) -> Iterator[str]:
    if not rules.asks_ray(plan):
        yield text(
            "nothing here says how many Ray workers the run starts: `--workers N`, or `--workers KEY` of the "
            "configuration"
        )
    elif plan.ray_trial is None:
        yield text(
            "memory and start-up time of a worker are not known before one runs: `--time-worker "
            "MODULE:CLASS` starts one, and ends it"
        )
