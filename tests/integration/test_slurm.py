"""Jobs of a real Slurm: one job of all ranks, whichever node they are on and however they were started, and nothing stays.

The nodes are namespaces of this machine (`ssh_hosts`), each with its own slurmd; what asks is on the first of them (`slurm_clusters`).
"""

from __future__ import annotations

import json
import re
import shlex
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_clusters
import ssh_hosts
from slurm_clusters import Cluster, python
from support import PROGRAMS, until

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.errors import AmbiguousTarget, NoTarget
from jupyter_traindbg.hosts import remote
from jupyter_traindbg.hosts.slurm import COMMANDS, own_jobs
from jupyter_traindbg.model import Targets, parse_target
from jupyter_traindbg.spread.remote import targets_on

pytestmark = pytest.mark.timeout(300)
IN_TORCHS_WORDS = "srun sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec {command}'"
IN_ITS_OWN = """
import os, runpy, sys
os.environ |= {"RANK": os.environ["SLURM_PROCID"], "WORLD_SIZE": os.environ["SLURM_NTASKS"], "LOCAL_RANK": os.environ["SLURM_LOCALID"]}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that reads Slurm's variables itself: nothing in the environment that it was started with says RANK."""
ROOM = ("--mem=900", "--cpus-per-task=1")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(remote, "_lines", {})
    with (
        ssh_hosts.hosts(tmp_path / "ssh", ["alpha", "beta", "gamma"], [tmp_path]) as hosts,
        slurm_clusters.slurm(hosts, tmp_path / "slurm") as made,
    ):
        monkeypatch.setenv(COMMANDS, shlex.join(made.words))
        try:
            yield made
        finally:
            remote.hang_up()


def trains(cluster: Cluster, *arguments: str, nodes: int = 3, per_node: int = 2, then: str = "true") -> str:
    """A DDP job whose ranks `srun` has started, each told its rank in torch's words; it has made three steps."""
    command = f"{IN_TORCHS_WORDS.format(command=python('ddp_ranks.py', *arguments))}; {then}"
    job = cluster.submit(command, f"--nodes={nodes}", f"--ntasks-per-node={per_node}", *ROOM)
    cluster.said(job, "ready")
    return job


def seen(name: str) -> Targets:
    named = parse_target(name)
    assert named is not None
    return targets_on(named)


def steps_of_ours(cluster: Cluster) -> int:
    return cluster.ask("squeue", "--steps", "--noheader", "--format=%j").split().count("traindbg")


def test_ranks_of_a_job_are_one_job_and_nothing_stays(cluster: Cluster) -> None:
    job = trains(cluster, "--sleep", "0.05")
    first, *others = seen(f"slurm:{job}").targets
    assert (first.name, first.rank, first.part_of) == (f"slurm:{job}", 0, None)
    assert [(other.rank, other.part_of) for other in others] == [(rank, f"slurm:{job}") for rank in range(1, 6)]
    with traindbg.attach("slurm:") as attached:
        assert attached.name == f"slurm:{job}", "the only one that runs"
        assert [(r.rank, r.host, r.agent) for r in attached.ranks] == [
            (0, "alpha", True), (1, "alpha", True), (2, "beta", True), (3, "beta", True), (4, "gamma", True), (5, "gamma", True),
        ]  # fmt: skip
        changed = attached.set_lr(scale=0.5)
        assert {rank.state for rank in changed.ranks} == {"verified"}
        assert len({rank.optimizer_step for rank in changed.ranks}) == 1
        diagnosis = attached.diagnose()
        assert not diagnosis.findings
        assert [rank.rank for rank in diagnosis.ranks] == list(range(6)), "none is missed that the job has never had"
        assert steps_of_ours(cluster) == 3
        assert attached.detach() == 6
    remote.hang_up()
    until(lambda: steps_of_ours(cluster) == 0)
    for host in cluster.hosts:
        left = host.run("sh", "-c", "ls -d /tmp/traindbg-*/*-* /tmp/traindbg-helper-* 2>/dev/null; true")
        assert left == ""


def test_a_rank_that_is_stuck_is_named_with_node_file_and_line(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    job = trains(cluster, "--lost", "3", "8")
    assert cli.main(["diagnose", f"slurm:{job}", "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    first = told["verdict"][0]
    assert (told["state"], first["who"]) == ("stuck", ["rank 3"])
    assert re.search(r"ddp_ranks\.py:\d+ loses_its_way$", first["where"])
    assert any("on beta" in line for line in first["evidence"])


def test_ranks_that_only_slurm_has_numbered_and_those_below_a_torchrun(cluster: Cluster) -> None:
    script = cluster.folder / "in_its_own.py"
    script.write_text(IN_ITS_OWN)
    own = f"srun {python(str(script), str(PROGRAMS / 'ddp_ranks.py'), '--sleep', '0.05')}"
    tasks = cluster.submit(own, "--nodes=2", "--ntasks-per-node=2", *ROOM)
    launcher = python("torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", "--master-addr=10.77.0.1")
    there = f"--master-port=29700 --node-rank=$SLURM_NODEID {PROGRAMS / 'ddp_ranks.py'} --sleep 0.05"
    launched = cluster.submit(f"srun sh -c 'exec {launcher} {there}'", "--nodes=2", "--ntasks-per-node=1", *ROOM)
    for job in (tasks, launched):
        cluster.said(job, "ready")
        with traindbg.attach(f"slurm:{job}") as attached:
            assert [rank.rank for rank in attached.ranks] == [0, 1, 2, 3]
            assert len({rank.host for rank in attached.ranks}) == 2
            assert {rank.state for rank in attached.set_lr(scale=0.5).ranks} == {"verified"}
    assert {t.part_of for t in seen(f"slurm:{launched}").targets if t.rank is not None} == {f"slurm:{launched}"}
    with traindbg.attach(f"slurm:{launched}:torchrun") as attached:
        assert len(attached.ranks) == 4
    with pytest.raises(AmbiguousTarget, match=f"`slurm:{tasks}`|slurm:{tasks}"):
        traindbg.attach("slurm:")


def test_jobs_that_share_a_node_are_told_apart(cluster: Cluster) -> None:
    """Two tasks of an array, on whichever nodes they are, and what runs beside them without Slurm."""
    steps = python("train.py", "--steps", "0", "--sleep", "0.05")
    array = cluster.submit(f"exec {steps}", "--array=1-2", "--nodelist=beta", "--ntasks=1", *ROOM)
    cluster.hosts[1].start(shlex.split(steps), cluster.folder / "beside.log")
    until(lambda: [job.state for job in own_jobs(10)] == ["RUNNING", "RUNNING"])
    pids = []
    for task in ("1", "2"):
        until(lambda task=task: len(seen(f"slurm:{array}_{task}").targets) == 1)
        with traindbg.attach(f"slurm:{array}_{task}") as attached:
            (rank,) = attached.ranks
            assert (rank.rank, rank.world_size, rank.host) == (0, 1, "beta")
            pids.append(rank.pid)
    assert len(set(pids)) == 2
    with pytest.raises(AmbiguousTarget, match="2 jobs of Slurm"):
        traindbg.attach(f"slurm:{array}")
    cluster.ask("scancel", f"{array}_2")
    until(lambda: [job.state for job in own_jobs(10)] == ["RUNNING"])
    with pytest.raises(NoTarget, match="does not run: CANCELLED"):
        traindbg.attach(f"slurm:{array}_2")


def test_what_a_rank_said_at_its_end_is_in_the_log_of_the_job(cluster: Cluster) -> None:
    """Its own descriptors are a pipe to Slurm; the file has the words of all nodes, and srun's own."""
    gate = cluster.folder / "gate"
    more = cluster.folder / "more"
    words = ("--gate", str(gate), "--fails", "1", "8")
    job = trains(cluster, *words, nodes=2, per_node=1, then=f"until [ -e {more} ]; do sleep 0.2; done")
    with traindbg.attach(f"slurm:{job}") as attached:
        gate.touch()
        cluster.said(job, "task 1: Exited with exit code 1")
        until(lambda: attached.diagnose().state == "failed")
        first = attached.diagnose().findings[0]
    assert (first.code, list(first.who)) == ("rank_ended", ["rank 1"])
    assert "KeyError: 'labels'" in " ".join([first.title, *first.evidence])
    more.touch()
    until(lambda: not own_jobs(10))
    with pytest.raises(NoTarget, match=rf"does not run.*`traindbg diagnose {cluster.folder}/{job}\.out`"):
        traindbg.attach(f"slurm:{job}")
    assert traindbg.diagnose_log(str(cluster.folder / f"{job}.out"))[0].code == "uncaught_exception"


def test_a_report_has_what_each_node_tells_and_the_log_of_the_job_once(cluster: Cluster) -> None:
    """All nodes see the file, and so does who asks; on the first node it is also where the batch script writes."""
    job = trains(cluster, "--sleep", "0.05", nodes=2, per_node=1)
    path = cluster.folder / "made.zip"
    with traindbg.attach(f"slurm:{job}") as attached:
        attached.report(str(path))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        told = json.loads(archive.read("report.json"))["parts"]
    assert [name for name in names if f"{job}.out.last" in name] == [f"logs/{job}.out.last500.txt"]
    assert {"hosts/alpha/commands.txt", "hosts/beta/commands.txt"} <= set(names)
    assert [(row["name"], row["ranks"]) for row in told["hosts"]["data"]["hosts"]] == [("alpha", [0]), ("beta", [1])]
    assert told["log_findings"]["summary"], "what is read here is judged here"


def test_a_node_that_dies_is_named_and_holds_up_nobody(cluster: Cluster) -> None:
    job = trains(cluster, "--sleep", "0.05", per_node=1)
    with traindbg.attach(f"slurm:{job}") as attached:
        attached.steps()
        cluster.hosts[2].end()
        cluster.said(job, "task 0: Exited with exit code 1")
        until(lambda: attached.diagnose().state == "failed", timeout_s=90)
        (only,) = attached.diagnose().findings
        assert (only.code, only.severity, list(only.who)) == ("host_unreachable", "critical", ["rank 2"])
        assert any("lost the connection" in line for line in only.evidence), "that the others ended is a symptom"
        began = time.monotonic()
    assert time.monotonic() - began < 30, "closing waits for nobody for ever"
