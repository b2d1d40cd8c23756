"""`traindbg ray-workers` from a cold shell, and what it has to say of the scene of ray_collector.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

from ray_clusters import Cluster, Submitted, line_of, until

PROGRAM = "ray_collector.py"
STANDS_STILL = 2
"""From this trouble on a row is one that somebody has to look at."""


def run(
    cluster: Cluster, *words: str, env: Mapping[str, str] | None = None, limit_s: float = 60
) -> tuple[int, str, str]:
    """`traindbg WORDS` in a new process: its exit status, stdout and stderr."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", *words],
        env={**kept, **cluster.env, "TRAINDBG_LANG": "en", **(env or {})},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def workers(
    cluster: Cluster, *words: str, env: Mapping[str, str] | None = None, patience: str = "10"
) -> dict[str, Any]:
    status, said, error = run(cluster, "ray-workers", *words, "--json", "--timeout", patience, env=env)
    assert status in (0, 1), error
    found: dict[str, Any] = json.loads(said)
    return found


def at(mark: str) -> str:
    return f"{PROGRAM}:{line_of(PROGRAM, mark)} "


def troubled(found: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["pid"]: row for row in found["workers"] if row["trouble"] >= STANDS_STILL}


def assert_names_both(found: Mapping[str, Any], job: Submitted, but: Collection[int] = ()) -> None:
    """Both bad workers with file and line, in the rows as in the verdict, and nobody else; `but` are rows of other troubles."""
    rows = {pid: row for pid, row in troubled(found).items() if row["pid"] not in but}
    deadlocked, stuck = (int(job.said(word)[2]) for word in ("deadlocked", "stuck"))
    assert set(rows) == {deadlocked, stuck}, [(row["who"], row["words"]) for row in rows.values()]
    assert at("DEADLOCK") in rows[deadlocked]["where"]
    assert "stats" in json.dumps(rows[deadlocked])
    assert at("STUCK") in rows[stuck]["where"]
    assert rows[stuck]["state"] == "in __init__"
    blamed = {who: finding["where"] for finding in found["verdict"] for who in finding["who"]}
    assert at("DEADLOCK") in blamed[rows[deadlocked]["who"]]
    assert at("STUCK") in blamed[rows[stuck]["who"]]
    healthy = {row["who"] for row in found["workers"] if row["kind"] == "actor"} - {row["who"] for row in rows.values()}
    accused = {who for finding in found["verdict"] if finding["severity"] == "critical" for who in finding["who"]}
    assert not healthy & accused


def settled(cluster: Cluster, *words: str, patience: str = "10") -> dict[str, Any]:
    """A look once both stand still for long enough to be called so: in ``__init__`` that is a multiple of what the others needed."""
    until(lambda: len(troubled(workers(cluster, *words, patience=patience))) >= 2, "trouble", 120)
    return workers(cluster, *words, patience=patience)
