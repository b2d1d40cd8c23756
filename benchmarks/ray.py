"""On a Ray job: how long from a cold notebook to a verdict, what a refresh costs, and what being watched costs the job.

The scene is tests/programs/ray_collector.py: of ``--workers`` one has deadlocked and one is stuck in ``__init__``. Beside it, in turns:
`ray stack`, and the state API alone (``ray list actors`` and ``ray list tasks``), as commands that a person would type. To start 100
workers takes some minutes, which are not counted. The job of the last table is programs/ray_steady.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from common import BIN, PROGRAMS, REPO, TRAINDBG, Row, Sample, arguments, in_turns, print_table, ratio_text

sys.path.insert(0, str(REPO / "tests"))
os.chdir(REPO)  # this file is called as what the broker imports

from kernels import Kernel  # noqa: E402
from ray_clusters import Cluster, Submitted, line_of, start_cluster  # noqa: E402

RAY = str(BIN / "ray")
SCENE = "ray_collector.py"
START_S = 900.0
LIMIT_S = 120.0
REFRESH_S = 2.0
WORKERS_OF_GOAL = 8
VERDICT_HEAD = ("workers: asked cold", "ours, s", "other, s", "ours / other", "goal")
COST_HEAD = (
    "watched: ours as often as it is by default, others every 2 s",
    "steps/s",
    "left alone, steps/s",
    "slower by (95 %)",
    "goal",
)


class Asked:
    """Seconds until a command has ended, and whether its last answer named both bad workers with file and line."""

    def __init__(self, cluster: Cluster, *commands: list[str]) -> None:
        path = os.pathsep.join([str(BIN), os.environ["PATH"], str(sudo(cluster.directory))])
        self.env = {**os.environ, **cluster.env, "TRAINDBG_LANG": "en", "PATH": path}
        self.commands, self.said = commands, ""

    def __call__(self) -> float:
        began = time.perf_counter()
        done = [
            subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            for command in self.commands
        ]
        self.said = "".join(one.stdout for one in done)
        self.error = "".join(one.stderr.strip()[-200:] for one in done if one.returncode not in (0, 1))
        return time.perf_counter() - began

    @property
    def verdict(self) -> str:
        if self.error:
            return f" (failed: {self.error.splitlines()[-1]})"
        named = [f"{SCENE}:{line_of(SCENE, mark)}" in self.said for mark in ("DEADLOCK", "STUCK")]
        return "" if all(named) else " (names neither line)" if not any(named) else " (names one line)"


def sudo(folder: Path) -> Path:
    """A folder with a `sudo` that adds nothing, for root on a machine without one: `ray stack` says nothing where there is none."""
    made = folder / "sudo-for-root"
    made.mkdir(exist_ok=True)
    if os.geteuid() == 0 and shutil.which("sudo") is None:
        script = made / "sudo"
        script.write_text('#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')
        script.chmod(0o755)
    return made


def notebook_s(job: Submitted, folder: Path) -> tuple[float, float]:
    """From the first cell of a new kernel to the table, and then a refresh of it."""
    kernel = Kernel(sys.executable, folder, uuid.uuid4().hex)
    try:
        look = f"%ray_workers --job {job.id} --timeout 60"
        began = time.perf_counter()
        said = kernel.value(f"%load_ext traindbg\nfound = {look}\nprint(found)")
        cold_s = time.perf_counter() - began
        if f"{SCENE}:{line_of(SCENE, 'STUCK')}" not in said:
            raise SystemExit(f"the notebook did not name who is stuck:\n{said}")
        began = time.perf_counter()
        kernel.value(f"found = {look}")
        return cold_s, time.perf_counter() - began
    finally:
        kernel.close()


def verdicts(cluster: Cluster, workers: int, rounds: int) -> list[Row]:
    job = cluster.submit(SCENE, "--workers", str(workers), ready="READY", timeout_s=START_S)
    lists = [[RAY, "list", kind, "--detail", "--limit", "10000", "--format", "json"] for kind in ("actors", "tasks")]
    target = f"ray:{job.id}@{cluster.gcs}"
    asked = {
        "diagnose": Asked(cluster, [TRAINDBG, "diagnose", target, "--json", "--timeout", "60"]),
        "ray stack": Asked(cluster, [RAY, "stack"]),
        "state API alone": Asked(cluster, *lists),
    }
    refreshes: list[float] = []

    def from_notebook() -> float:
        with tempfile.TemporaryDirectory() as folder, as_client(cluster):
            cold_s, refresh_s = notebook_s(job, Path(folder))
        refreshes.append(refresh_s)
        return cold_s

    ways: dict[str, Callable[[], float]] = {"notebook": from_notebook, **asked}
    seen = in_turns(ways, rounds)
    job.stop()
    goal = "<= 10 s" if workers <= WORKERS_OF_GOAL else ""
    rows = []
    for ours, name in ((seen["notebook"], "cold notebook, %ray_workers"), (seen["diagnose"], "cold shell, diagnose")):
        named = "" if ours is seen["notebook"] else asked["diagnose"].verdict
        for other in ("ray stack", "state API alone"):
            ratio = ratio_text([a / b for a, b in zip(ours.values, seen[other].values, strict=True)])
            met = ours.median <= 10 and not named if goal else None
            rows.append(
                Row(
                    f"{workers}: {name}",
                    f"{ours}{named}",
                    f"{other}: {seen[other]}{asked[other].verdict}",
                    ratio,
                    goal,
                    met,
                )
            )
    rows.append(Row(f"{workers}: a refresh in the notebook", str(Sample(tuple(refreshes)))))
    return rows


@contextlib.contextmanager
def as_client(cluster: Cluster) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(cluster.env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# --- what being watched costs the job ------------------------------------------------------------------------------


def total(counts: Path, busy: int) -> int:
    return sum(memoryview(counts.read_bytes()).cast("q")[:busy])


def rate(counts: Path, busy: int, seconds: float) -> float:
    before, began = total(counts, busy), time.perf_counter()
    time.sleep(seconds)
    return (total(counts, busy) - before) / (time.perf_counter() - began)


@contextlib.contextmanager
def watching(cluster: Cluster, command: list[str]) -> Iterator[None]:
    """`command` runs meanwhile, again and again if it ends."""
    again = "import subprocess, sys, time\nwhile True:\n subprocess.run(sys.argv[2:], capture_output=True); time.sleep(float(sys.argv[1]))"
    words = [sys.executable, "-c", again, str(REFRESH_S), *command]
    path = os.pathsep.join([str(BIN), os.environ["PATH"], str(sudo(cluster.directory))])
    environment = {**os.environ, **cluster.env, "PATH": path}
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        time.sleep(2 * REFRESH_S)  # it has come up
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait(10)


def costs(cluster: Cluster, workers: int, windows: int, window_s: float) -> list[Row]:
    """Each window with somebody watching lies between two without; their mean is what it is compared with."""
    busy = max(1, (os.cpu_count() or 2) - 1)
    counts = cluster.directory / "counts"
    counts.write_bytes(bytes(8 * workers))
    words = ["--workers", str(workers), "--busy", str(busy), "--counts", str(counts)]
    job = cluster.submit(str(PROGRAMS / "ray_steady.py"), *words, ready="ready\n", timeout_s=START_S)
    target = f"ray:{job.id}@{cluster.gcs}"
    ways = {
        "ours: ray-workers --watch": [
            TRAINDBG,
            "ray-workers",
            target,
            "--watch",
            "--timeout",
            "60",
        ],
        "ray stack": [RAY, "stack"],
        "state API alone: ray list actors": [RAY, "list", "actors", "--detail", "--limit", "10000"],
    }
    rows = []
    for name, command in ways.items():
        rate(counts, busy, window_s / 2)
        alone = [rate(counts, busy, window_s)]
        watched: list[float] = []
        for _ in range(windows):
            with watching(cluster, command):
                watched.append(rate(counts, busy, window_s))
            time.sleep(1)
            alone.append(rate(counts, busy, window_s))
        between = [statistics.mean(pair) for pair in itertools.pairwise(alone)]
        slower = [before / now for before, now in zip(between, watched, strict=True)]
        ours = name.startswith("ours")
        met = statistics.median(slower) <= 1.01 if ours else None
        what = f"{workers} workers, {busy} computing: {name}"
        figures = (str(Sample(tuple(watched))), str(Sample(tuple(alone))), ratio_text(slower))
        rows.append(Row(what, *figures, "<= 1.01" if ours else "", met))
    job.stop()
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[24, 100], help="how many workers (default: 24 100)")
    parser.add_argument("--only", choices=("verdict", "cost"), help="one of the two tables")
    args = parser.parse_args()
    rounds, windows, window_s = (1, 1, 2.0) if args.quick else (5, 7, 20.0)
    asked: list[Row] = []
    watched: list[Row] = []
    for workers in args.workers:
        with start_cluster(num_cpus=workers + 1) as cluster:
            if args.only != "cost":
                asked += verdicts(cluster, workers, rounds)
            if args.only != "verdict":
                watched += costs(cluster, workers, windows, window_s)
    if asked:
        print_table("From a cold start to a verdict on a Ray job", VERDICT_HEAD, asked)
    if watched:
        print_table("What being watched costs a Ray job", COST_HEAD, watched)


if __name__ == "__main__":
    main()
