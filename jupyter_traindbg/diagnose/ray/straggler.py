"""A worker that works, or cannot be seen to stand still, and takes far longer than its peers took for the same call."""

from __future__ import annotations

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from .case import Hit, RayCase, hit
from .peers import call_name, in_words, waiting_for
from .stuck_in_method import unlike_peers
from .words import short

__all__ = ["rule"]

LEAST_S, FACTOR = 30.0, 5.0
UNSEEN_FACTOR = 10.0
"""Where nobody has looked at its process."""


def rule(case: RayCase) -> list[Hit]:
    return [found for row in case.states("running") if (found := _late(case, row)) is not None]


def _late(case: RayCase, row: RayWorker) -> Hit | None:
    seen, pace = case.doing(row), case.pace(row)
    unseen = pace == "not known" or (pace == "still" and (seen is None or seen.users is None))
    if row.kind == "train" or case.waits_on_ray(row) or case.waits_for_ranks(row) or not (pace == "moving" or unseen):
        return None
    unlike = unlike_peers(case, row)
    if unlike is None or unlike.factor is None or unlike.since_s < LEAST_S:
        return None
    if unlike.factor < (UNSEEN_FACTOR if unseen else FACTOR):
        return None
    waits = waiting_for(case, [row])
    if not waits:  # nobody is kept waiting: it may have more to do than the others
        return None
    at = short(case.where(row))
    named = row.method or call_name(row)
    return hit(
        "ray_straggler",
        "warning",
        text(
            f"{row.who} is far behind its peers: {time_words(unlike.since_s)} in {named}, now at {at}",
            f"{row.who} 远远落后于其他 worker：在 {named} 中已 {time_words(unlike.since_s)}，目前位于 {at}",
        ),
        [row],
        case.where(row),
        evidence=[unlike.words, in_words(case, row) if not unseen else row.words, *waits],
        cause=text(
            "It still computes: it has more to do than the others, or runs in a loop that does not end.",
            "它仍在计算：它的工作量比其他 worker 大，或陷入了不结束的循环。",
        )
        if not unseen
        else text(
            "Whether it still works could not be seen from outside (an async method, or no stacks of that node).",
            "从外部无法看出它是否仍在工作（异步方法，或无法获取该节点的调用栈）。",
        ),
        next_steps=[
            text(
                f"Watch whether it gets on: `traindbg ray-workers --progress NAME` with a counter of {row.class_name or named}.",
                f"观察它是否推进：`traindbg ray-workers --progress NAME`，NAME 为 {row.class_name or named} 的计数器属性。",
            ),
            text(
                "In the driver: go on with those that are done (`ray.wait(..., num_returns=, timeout=)`), and hand out smaller "
                "pieces of work.",
                "driver 中：先处理已完成的结果（`ray.wait(..., num_returns=, timeout=)`），并分发更小的任务。",
            ),
        ],
        confidence="medium",
    )
