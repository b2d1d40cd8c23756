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
        return NotAvailable(text("no worker was tried: --time-worker", "没有试启动 worker：--time-worker"))
    cores = cores_of(plan.machine.ray_nodes)
    if trial.failed_in in ("process", "import", "__init__") or not cores:
        return NotAvailable(text("it did not come up", "它没有起来") if cores else text("cores unknown", "核数未知"))
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
        found[text("memory", "内存")] = memory
    if cores_of(nodes):
        found[text("cores, one each", "每个一核")] = cores_of(nodes)
    return found


def _failed(plan: Plan, trial: RayWorkerTrial) -> Iterator[Finding]:
    if not trial.failed_in:
        return
    workers = plan.ray_workers
    others = (
        text(f"the {workers.value} of the run", f"运行中的 {workers.value} 个")
        if workers is not None
        else text("all others", "其他的")
    )
    yield Finding(
        _code(trial),
        "critical",
        text(
            f"One worker of {trial.worker} alone does not come up: {trial.failed_in}: {trial.problem}",
            f"单独一个 {trial.worker} 就起不来：{trial.failed_in}：{trial.problem}",
        ),
        things([trial.worker]),
        trial.where,
        [
            *(f"{stage.name}: {stage.took_s:.2f} s" for stage in trial.stages),
            *([f"pid {trial.pid}, {trial.node}"] if trial.pid else []),
        ],
        text(f"It was alone: so would {others} do.", f"它是单独启动的：{others}也会一样。"),
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
        return text("See what has the resources: `%ray_workers`.", "查看资源被谁占用：`%ray_workers`。")
    if trial.where:
        return text("Mend it at the line named, and give the same command again.", "在所示代码行修复后，再用同一命令。")
    return text(
        "See the worker's log in Ray's session directory, logs/.", "查看 Ray 会话目录 logs/ 中该 worker 的日志。"
    )


def _left(trial: RayWorkerTrial) -> Iterator[Finding]:
    """The trial could not be taken away: never silently."""
    if trial.cleaned:
        return
    yield Finding(
        "ray_trial_left",
        "warning",
        text(
            f"The worker that was tried is not seen to have ended: pid {trial.pid}",
            f"未能确认试验 worker 已结束：pid {trial.pid}",
        ),
        things([trial.worker]),
        evidence=[f"pid {trial.pid}, {trial.node}"],
        cause=text(
            "It belongs to this process, so that Ray ends it when this process ends.",
            "它属于本进程，本进程结束时 Ray 会结束它。",
        ),
        next_steps=[text("Look again: `%ray_workers`.", "再看一次：`%ray_workers`。")],
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
        text("The start of all workers will take a while", "全部 worker 启动需要一段时间") + f": {compared}",
        arithmetic=[compared, *(f"{s.name}: {s.took_s:.2f} s, {s.cpu_s:.2f} s CPU" for s in trial.stages)],
        at=[workers],
        cause=text(
            'It is no hang: a log line before that ("Collecting trajectories...") stays the last one for so long. Starting them in batches'
            " does not shorten it, it only brings the first results earlier.",
            "这不是卡死：之前的那行日志（如 “Collecting trajectories...”）会在这段时间里一直是最后一行。"
            "分批创建不会缩短总时间，只会让最早的结果更早到来。",
        ),
        steps=[
            text(
                f"Start {cores} (a worker for each core), or hand out work as they come up: ray.wait(refs, num_returns=1).",
                f"只启动 {cores} 个（每核一个），或在它们就绪时就分配工作：ray.wait(refs, num_returns=1)。",
            )
        ],
        reference=STARTS,
        confidence="medium",
    )
