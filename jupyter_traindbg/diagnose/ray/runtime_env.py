"""A start-up that waits for a runtime_env being built, or that failed to build."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from ..hang.words import alike
from .case import Hit, RayCase, hit, known
from .peers import waiting_for
from .words import names

__all__ = ["rule"]

WORTH_S, LONG_S = 15.0, 180.0


def rule(case: RayCase) -> list[Hit]:
    building = [r for r in case.states("building runtime_env") if (known(r.since_s) or 0.0) > WORTH_S]
    hits = [_building(case, same) for same in alike(building, lambda r: (r.job_id, r.class_name, r.node_id))]
    failed = [r for r in case.states("dead") if (d := case.death(r)) is not None and d.kind == "runtime_env"]
    return hits + [_failed(case, same) for same in alike(failed, lambda r: (r.job_id, _words(case, r)))]


def _words(case: RayCase, row: RayWorker) -> str:
    death = case.death(row)
    return death.words if death is not None else row.words


def _building(case: RayCase, same: Sequence[RayWorker]) -> Hit:
    since = max(known(r.since_s) or 0.0 for r in same)
    return hit(
        "ray_runtime_env",
        "warning" if since > LONG_S else "info",
        text(
            f"The start of {names(same)} waits for its runtime_env, being built for {time_words(since)}",
            f"{names(same)} 的启动在等待 runtime_env，已构建 {time_words(since)}",
        ),
        same,
        evidence=[*dict.fromkeys(r.words for r in same[:2]), *waiting_for(case, same)],
        cause=text(
            "Ray installs the packages, or fetches the files, that the job asks for in its runtime_env, once on every node; no worker "
            "starts before. Slow indexes, big wheels and working directories of gigabytes make that long.",
            "Ray 会在每个节点上安装 runtime_env 要求的包或下载文件，之后才启动 worker。慢的软件源、大 wheel、数 GB 的工作目录会使其很久。",
        ),
        next_steps=[
            text(
                "See how far it is: `tail -f /tmp/ray/session_latest/logs/runtime_env_setup-*.log` on that node.",
                "查看进度：在该节点上 `tail -f /tmp/ray/session_latest/logs/runtime_env_setup-*.log`。",
            ),
            text(
                "For the next run: put the packages into the nodes' image, and leave data and checkpoints out of `working_dir` "
                "(`excludes`).",
                "下次运行：将包预装到节点镜像，并用 `excludes` 将数据与检查点排除在 `working_dir` 之外。",
            ),
        ],
    )


def _failed(case: RayCase, same: Sequence[RayWorker]) -> Hit:
    said = _words(case, same[0])
    return hit(
        "ray_runtime_env_failed",
        "critical",
        text(
            f"{names(same)} could not start: its runtime_env failed to build",
            f"{names(same)} 无法启动：runtime_env 构建失败",
        ),
        same,
        evidence=[said, *waiting_for(case, same)],
        cause=text(
            "What the job asks for in its runtime_env could not be installed or fetched on the node.",
            "作业的 runtime_env 所要求的内容无法在节点上安装或下载。",
        ),
        next_steps=[
            text(
                "Try the same there by hand (`pip install ...`); logs: runtime_env_setup-*.log in the session's logs on that node.",
                "在该节点手工尝试相同操作（`pip install ...`）；日志：会话日志目录中的 runtime_env_setup-*.log。",
            )
        ],
        explains=case.rows,
    )
