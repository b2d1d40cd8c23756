"""What the trial of one worker says of all of them: whether it comes up at all, and how long the start of so many will take."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Finding, Maybe, NotAvailable, Plan, RayWorkerTrial, things
from . import ray_demand as demand
from .ray_room import cores_of, that_fit_into_memory
from .reading import finding, positive

__all__ = ["fitting", "rule", "start_s"]

LONG_S = 60.0
STARTS = "https://docs.ray.io/en/latest/ray-core/actors.html"


def rule(plan: Plan) -> list[Finding]:
    trial = plan.ray_trial
    if trial is None:
        return []
    return [*_failed(plan, trial), *_left(trial), *_slow(plan, trial)]


def start_s(plan: Plan) -> Maybe[float]:
    """Seconds until all workers of the `plan` are up if they start like the one that was tried, at the least.

    Starting is computing (Ray, Python, imports): the CPU time of one, times their number, divided among the cores; never less than one
    takes. Ray starts no more processes at once on a node than it has cores, so it does not go faster than that.
    """
    trial, workers = plan.ray_trial, plan.ray_workers
    if trial is None or workers is None or not positive(workers):
        return NotAvailable(text("no worker was tried: --time-worker"))
    cores = cores_of(plan.machine.ray_nodes)
    if trial.failed_in in ("process", "import", "__init__") or not cores:
        return NotAvailable(text("it did not come up") if cores else text("cores unknown"))
    return max(trial.took_s, workers.value * trial.cpu_s / cores)


def fitting(plan: Plan) -> dict[str, int]:
    """How many like the one that was tried fit, by what bounds them: Ray's books, memory, cores."""
    trial = plan.ray_trial
    if trial is None or not plan.machine.ray_nodes or not trial.stages:
        return {}
    nodes = plan.machine.ray_nodes
    found = {}
    booked = sum(demand.on_node(trial.resources, node.resources_total) for node in nodes)
    if trial.resources:
        found[" + ".join(demand.shown(*one) for one in trial.resources.items())] = booked
    memory = that_fit_into_memory(plan, trial.own_bytes) if trial.own_bytes else None
    if memory is not None:
        found[text("memory")] = memory
    if cores_of(nodes):
        found[text("cores, one each")] = cores_of(nodes)
    return found


def _failed(plan: Plan, trial: RayWorkerTrial) -> Iterator[Finding]:
    if not trial.failed_in:
        return
    workers = plan.ray_workers
    others = text("the {value} of the run", value=workers.value) if workers is not None else text("all others")
    yield Finding(
        _code(trial),
        "critical",
        text(
            "One worker of {worker} alone does not come up: {failed_in}: {problem}",
            worker=trial.worker,
            failed_in=trial.failed_in,
            problem=trial.problem,
        ),
        things([trial.worker]),
        trial.where,
        [
            *(f"{stage.name}: {stage.took_s:.2f} s" for stage in trial.stages),
            *([f"pid {trial.pid}, {trial.node}"] if trial.pid else []),
        ],
        text("It was alone: so would {others} do.", others=others),
        [_mend(trial)],
        STARTS,
    )


def _code(trial: RayWorkerTrial) -> str:
    """As `diagnose` would call it in the run."""
    if trial.failed_in == "process":
        return "ray_waiting_for_resources"
    if trial.failed_in in ("import", "__init__"):
        return "ray_died_in_init" if trial.raised else "ray_stuck_in_init"
    return "ray_worker_died" if trial.raised else "ray_worker_stuck"


def _mend(trial: RayWorkerTrial) -> str:
    if trial.failed_in == "process":
        return text("See what has the resources: `%ray_workers`.")
    if trial.where:
        return text("Mend it at the line named, and give the same command again.")
    return text("See the worker's log in Ray's session directory, logs/.")


def _left(trial: RayWorkerTrial) -> Iterator[Finding]:
    """The trial could not be taken away: never silently."""
    if trial.cleaned:
        return
    yield Finding(
        "ray_trial_left",
        "warning",
        text("The worker that was tried is not seen to have ended: pid {pid}", pid=trial.pid),
        things([trial.worker]),
        evidence=[f"pid {trial.pid}, {trial.node}"],
        cause=text("It belongs to this process, so that Ray ends it when this process ends."),
        next_steps=[text("Look again: `%ray_workers`.")],
    )


def _slow(plan: Plan, trial: RayWorkerTrial) -> Iterator[Finding]:
    workers = plan.ray_workers
    if workers is None or not positive(workers):
        return
    takes, cores = start_s(plan), cores_of(plan.machine.ray_nodes)
    if isinstance(takes, NotAvailable) or takes < LONG_S or workers.value <= cores:
        return
    compared = f"{workers} x {trial.cpu_s:.1f} s CPU / {cores} CPU = {takes:.0f} s"
    yield finding(
        "ray_startup_slow",
        "info",
        text("The start of all workers will take a while") + f": {compared}",
        arithmetic=[compared, *(f"{s.name}: {s.took_s:.2f} s, {s.cpu_s:.2f} s CPU" for s in trial.stages)],
        at=[workers],
        cause=text(
            'It is no hang: a log line before that ("Collecting trajectories...") stays the last one for so '
            "long. Starting them in batches does not shorten it, it only brings the first results earlier."
        ),
        steps=[
            text(
                "Start {cores} (a worker for each core), or hand out work as they come up: ray.wait(refs, "
                "num_returns=1).",
                cores=cores,
            )
        ],
        reference=STARTS,
        confidence="medium",
    )
