"""A Ray Train job of two workers on a real cluster, watched: from here, and through helpers as on other machines."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Submitted, until

from jupyter_traindbg.attach.ray import hosts as hosts_module
from jupyter_traindbg.attach.ray.hosts import HELPERS
from jupyter_traindbg.job import connect

pytestmark = [pytest.mark.timeout(RAY_TEST_S)]
PATIENT_S = 60.0


@pytest.fixture(autouse=True)
def no_hosts_kept() -> Iterator[None]:
    """What this process keeps from one call to the next would be taken for another one's helpers."""
    yield
    for hosts in list(hosts_module._known.values()):
        hosts.end()


def losses(out: Path, rank: int) -> set[str]:
    """All that the worker has written, once it has written some more."""

    def lines() -> list[str]:
        return (out / f"rank-{rank}").read_text().splitlines()

    before = len(lines())
    until(lambda: len(lines()) > before + 1, "further steps", PATIENT_S)
    return {line.split()[1] for line in lines() if line.count(" ") == 2}


@pytest.mark.parametrize("way", ["from here", "through helpers"])
def test_the_trainers_are_watched_and_exported(
    ray_cluster: Cluster,
    ray_training: tuple[Submitted, Path],
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray_cluster.use(monkeypatch)
    if way == "through helpers":
        monkeypatch.setenv(HELPERS, "always")
    training, out = ray_training
    with connect(f"ray:{training.id}@{ray_cluster.gcs}", timeout=PATIENT_S) as job:
        feed = job.feed(rate_hz=4)
        until(lambda: feed.ranks and min(feed.step_of(rank) for rank in feed.ranks) > 3, "watched steps", PATIENT_S)
        assert feed.ranks == (0, 1), "the driver and other workers train nothing"
        assert feed.rank_names == {0: "rank 0", 1: "rank 1"}
        assert feed.silent == {}
        assert feed.state.code in ("training", "slow", "stalled")
        curve = feed.curve("loss", points=100_000)
        for rank in (0, 1):
            seen = [v.hex() for v in curve.lines[rank].tolist() if not math.isnan(v)]
            assert len(seen) > 2
            assert set(seen) <= losses(out, rank)
        assert job.export(str(tmp_path / "trace.json")).ranks == 2
        job.set_lr(scale=0.9, timeout=PATIENT_S)
        until(lambda: [e for e in feed.events if e.kind == "lr"], "the event", PATIENT_S)
        job.release(timeout=PATIENT_S)
    assert not feed.running


def test_a_report_reads_nodes_that_are_other_machines_there(
    ray_cluster: Cluster, ray_training: tuple[Submitted, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_cluster.use(monkeypatch)
    monkeypatch.setenv(HELPERS, "always")
    with connect(f"ray:{ray_training[0].id}@{ray_cluster.gcs}", timeout=PATIENT_S) as job:
        made = job.report(str(tmp_path / "r.zip"), timeout=PATIENT_S)
        everybody = set(job.who)
    with zipfile.ZipFile(made.path) as archive:
        told = json.loads(archive.read("report.json"))["parts"]["hosts"]
    assert not [words for words in told["missing"] if "failed" in words or "no answer" in words]
    assert {rank for row in told["data"]["hosts"] for rank in row["ranks"]} == everybody
    assert any(file.name.startswith("hosts/node-") and file.name.endswith("/commands.txt") for file in made.files)
