"""``preflight --ray`` on a real cluster: its resources in the verdict, and one worker that is started, timed and taken away again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray_clusters import Cluster, line_of, until
from support import PROGRAMS

CLI = [sys.executable, "-m", "jupyter_traindbg.cli"]
PROGRAM = "ray_trial_worker.py"
GUIDE = "selfplay:\n  num_workers: 100\n  games_per_worker: 10\n"
LIMIT_S = 150


def preflight(
    cluster: Cluster, folder: Path, *words: str, status: int = 1, seconds: str = "90", address: str = ""
) -> dict[str, Any]:
    (folder / "guide.yaml").write_text(GUIDE)
    at = address or cluster.gcs
    command = [*CLI, "preflight", "guide.yaml", "--ray", at, "--json", "--timeout", seconds, *words]
    done = subprocess.run(
        command, env=environ(cluster), cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == status, done.stderr + done.stdout[:2000]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def environ(cluster: Cluster) -> dict[str, str]:
    return {**os.environ, **cluster.env, "TRAINDBG_LANG": "en"}


def by_code(found: dict[str, Any]) -> dict[str, Any]:
    return {finding["code"]: finding for finding in found["findings"]}


def trials(cluster: Cluster) -> list[dict[str, Any]]:
    return [a for a in cluster.state("actors", class_name="TraindbgTrial") if a["state"] != "DEAD"]


def test_the_clusters_resources_take_the_place_of_this_machines(ray_cluster: Cluster, tmp_path: Path) -> None:
    found = preflight(ray_cluster, tmp_path, "--each", "CPU=1")
    nodes = found["plan"]["machine"]["ray_nodes"]
    assert sorted(node["resources_total"]["CPU"] for node in nodes) == [2, 10]
    told = by_code(found)["ray_waiting_for_resources"]
    assert told["severity"] == "critical"
    assert "100 x 1 CPU = 100 CPU > 12 CPU" in told["evidence"]
    assert told["where"] == "guide.yaml:2 selfplay.num_workers"
    assert "12" in told["next_steps"][0]

    short = preflight(ray_cluster, tmp_path, "--workers", "1", "--each", "extra=3")
    infeasible = by_code(short)["ray_infeasible"]
    assert "3 extra > 2 extra" in infeasible["evidence"]

    strict = "selfplay:\n  num_workers: 11\n  num_cpus_per_worker: 1\n  placement_strategy: STRICT_PACK\n"
    (tmp_path / "strict.yaml").write_text(strict)
    done = subprocess.run(
        [*CLI, "preflight", "strict.yaml", "--ray", ray_cluster.dashboard],
        env=environ(ray_cluster), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "10 of 11 find a place" in " ".join(done.stdout.split())
    assert "STRICT_PACK puts all of them on one node" in " ".join(done.stdout.split())


def test_one_worker_is_timed_and_taken_away(ray_cluster: Cluster, tmp_path: Path) -> None:
    words = ["--time-worker", "ray_trial_worker:Plain", "--init", '{"megabytes": 80}', "--call", "later"]
    lay_ready = set(ray_cluster.processes())
    found = preflight(ray_cluster, tmp_path, *words, "--working-dir", str(PROGRAMS))
    trial = found["plan"]["ray_trial"]
    assert [stage["name"] for stage in trial["stages"]] == ["process", "import", "__init__", "later()"]
    assert (trial["failed_in"], trial["problem"], trial["cleaned"]) == ("", "", True)
    process, loaded, made, _ = trial["stages"]
    assert trial["pid"] not in lay_ready, "a new process, whose start can be timed"
    assert min(process["took_s"], process["cpu_s"]) > 0
    assert made["rss_bytes"] - loaded["rss_bytes"] > 70 << 20
    assert trial["peak_bytes"] >= trial["own_bytes"] > 80 << 20
    assert set(found["fits"]) == {"memory", "cores, one each"}
    assert found["start_s"] >= sum(stage["took_s"] for stage in trial["stages"][:3])
    assert not Path(f"/proc/{trial['pid']}").exists()
    assert trials(ray_cluster) == []


def test_one_worker_is_timed_through_a_client_server(ray_token_cluster: Cluster, tmp_path: Path) -> None:
    """Which loses the first two processes that it starts for us, as it may at any time."""
    lost = ray_token_cluster.directory / "lost_forks"
    lost.write_text("one\ntwo")
    words = ["--time-worker", "ray_trial_worker:Plain", "--working-dir", str(PROGRAMS)]
    found = preflight(ray_token_cluster, tmp_path, *words, address=ray_token_cluster.client)
    assert lost.read_text() == ""
    trial = found["plan"]["ray_trial"]
    assert (trial["failed_in"], trial["problem"], trial["cleaned"]) == ("", "", True)
    assert trials(ray_token_cluster) == []


def test_a_worker_is_started_with_what_its_class_declares(ray_cluster: Cluster, tmp_path: Path) -> None:
    words = ["--workers", "3", "--time-worker", "ray_trial_worker:Declared", "--working-dir", str(PROGRAMS)]
    found = preflight(ray_cluster, tmp_path, *words)
    trial = found["plan"]["ray_trial"]
    assert trial["resources"] == {"CPU": 1, "extra": 1}
    extra = next(n for n in found["plan"]["machine"]["ray_nodes"] if "extra" in n["resources_total"])
    assert trial["node"] in (extra["name"], extra["ip"])
    told = by_code(found)["ray_waiting_for_resources"]
    assert any("3 x 1 extra = 3 extra > 2 extra" in line for line in told["evidence"])


@pytest.mark.parametrize(
    ("option", "code", "mark"), [("fails", "ray_died_in_init", "FAILS"), ("hangs", "ray_stuck_in_init", "HANGS")]
)
def test_a_worker_that_does_not_come_up_is_told_with_its_line(
    ray_cluster: Cluster, tmp_path: Path, option: str, code: str, mark: str
) -> None:
    words = [
        "--time-worker",
        "ray_trial_worker:Plain",
        "--init",
        f'{{"{option}": true}}',
        "--working-dir",
        str(PROGRAMS),
    ]
    found = preflight(ray_cluster, tmp_path, *words, seconds="90" if option == "fails" else "15")
    told = found["findings"][0]
    assert told["code"] == code
    assert re.search(rf"/{PROGRAM}:{line_of(PROGRAM, mark)} (Plain\.)?__init__$", told["where"])
    assert found["plan"]["ray_trial"]["cleaned"]
    assert trials(ray_cluster) == []


def test_nothing_stays_where_the_preflight_is_killed(ray_cluster: Cluster, tmp_path: Path) -> None:
    words = ["--ray", ray_cluster.gcs, "--timeout", "100", "--working-dir", str(PROGRAMS)]
    worker = ["--time-worker", "ray_trial_worker:Plain", "--init", '{"hangs": true}']
    asking = subprocess.Popen(
        [*CLI, "preflight", *words, *worker], env=environ(ray_cluster), cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    try:
        (actor,) = until(lambda: [a for a in trials(ray_cluster) if a["state"] == "ALIVE"], "the trial", 90)
    finally:
        asking.send_signal(signal.SIGKILL)
        asking.wait(10)
    until(lambda: not trials(ray_cluster), "the end of the trial", 30)
    until(lambda: not Path(f"/proc/{actor['pid']}").exists(), "the end of its process", 30)
