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
            "The start of {names} waits for its runtime_env, being built for {since}",
            names=names(same),
            since=time_words(since),
        ),
        same,
        evidence=[*dict.fromkeys(r.words for r in same[:2]), *waiting_for(case, same)],
        cause=text(
            "Ray installs the packages, or fetches the files, that the job asks for in its runtime_env, once "
            "on every node; no worker starts before. Slow indexes, big wheels and working directories of "
            "gigabytes make that long."
        ),
        next_steps=[
            text("See how far it is: `tail -f /tmp/ray/session_latest/logs/runtime_env_setup-*.log` on that node."),
            text(
                "For the next run: put the packages into the nodes' image, and leave data and checkpoints out of "
                "`working_dir` (`excludes`)."
            ),
        ],
    )


def _failed(case: RayCase, same: Sequence[RayWorker]) -> Hit:
    said = _words(case, same[0])
    return hit(
        "ray_runtime_env_failed",
        "critical",
        text("{names} could not start: its runtime_env failed to build", names=names(same)),
        same,
        evidence=[said, *waiting_for(case, same)],
        cause=text("What the job asks for in its runtime_env could not be installed or fetched on the node."),
        next_steps=[
            text(
                "Try the same there by hand (`pip install ...`); logs: runtime_env_setup-*.log in the session's "
                "logs on that node."
            )
        ],
        explains=case.rows,
    )
