"""Jobs on several hosts that a real ssh reaches: one job, whichever host a rank is on, and nobody waits for a host that is gone.

The hosts are namespaces of this machine, each with processes, a network and a /tmp of its own: see `ssh_hosts`. Their pids are the same.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import ssh_hosts
from ssh_hosts import Host

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.errors import ActionRefused, AmbiguousTarget, NoTarget, NotPermitted
from jupyter_traindbg.hosts import remote
from jupyter_traindbg.model import available, parse_target
from jupyter_traindbg.spread.remote import targets_on

pytestmark = pytest.mark.timeout(300)
STARTS_S = 90.0
ALL = "ssh:alpha,beta,gamma:torchrun"


def trains(hosts: list[Host], folder: Path, *arguments: str, per_host: int = 1, ready: str = "ready") -> None:
    """A DDP job over all of them, which has made three steps."""
    ssh_hosts.torchrun(hosts, "ddp_ranks.py", *arguments, per_host=per_host, folder=folder)
    said(hosts[0], folder, ready)


def said(host: Host, folder: Path, words: str) -> None:
    log = folder / f"{host.name}.log"
    assert until(lambda: words in log.read_text(), STARTS_S), log.read_text()[-2000:]


def steps(host: Host, folder: Path) -> int:
    """How many a program that writes a line for each has made there."""
    return len(re.findall(r" -?0x\S+$", (folder / f"{host.name}.log").read_text(), re.M))


def losses(hosts: list[Host], folder: Path) -> Mapping[str, str]:
    """By rank and step, as exact hex."""
    lines = (line for host in hosts for line in (folder / f"{host.name}.log").read_text().splitlines())
    found = (re.fullmatch(r"(\d+ \d+) (-?0x\S+)", line) for line in lines)
    return {one[1]: one[2] for one in found if one is not None}


def until(ready: Callable[[], bool], within_s: float) -> bool:
    """Whether that comes true in time."""
    ends = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True


def left_behind(host: Host) -> str:
    """What of ours is on it: directories of helpers and agents, helper processes."""
    return host.run(
        "sh", "-c", "ls -d /tmp/traindbg-*/*-* /tmp/traindbg-helper-* 2>/dev/null; ps ax | grep '[e]xec(bytes'; true"
    )


def test_ranks_of_three_hosts_are_one_job_and_change_at_one_step(hosts: list[Host], tmp_path: Path) -> None:
    trains(hosts, tmp_path, "--sleep", "0.05", per_host=2)
    with traindbg.attach(ALL) as job:
        assert [(r.rank, r.host, r.agent) for r in job.ranks] == [
            (0, "alpha", True), (1, "alpha", True), (2, "beta", True), (3, "beta", True), (4, "gamma", True), (5, "gamma", True),
        ]  # fmt: skip
        assert len({rank.pid for rank in job.ranks}) < 6, "two hosts have the same pids, which tells nobody apart"
        changed = job.set_lr(2.5e-3)
        assert {rank.state for rank in changed.ranks} == {"verified"}, changed.to_dict()
        (step,) = {rank.optimizer_step for rank in changed.ranks}
        assert available(step)
        for rank in job.steps().ranks:
            used = {s.optimizer_step: s.lr[0] for s in rank.steps}
            assert used[step] == 2.5e-3
            assert used.get(step - 1) == 1e-2
        answered = job.sql("select rank, host, step from ranks order by rank")
        assert [row[1] for row in answered.rows] == ["alpha", "alpha", "beta", "beta", "gamma", "gamma"]
        assert {p.rank for p in job.stacks().processes} == set(range(6))
        assert not job.diagnose().findings
        saved = job.checkpoint(str(tmp_path / "saved"))
        assert not saved.missing_ranks
        assert (tmp_path / "saved" / "model.pt").exists()
        assert job.detach() == 6
    remote.hang_up()
    for host in hosts:
        assert until(lambda host=host: not left_behind(host), 20), left_behind(host)


def test_who_is_looked_at_over_there_trains_as_if_nobody_had_looked(hosts: list[Host], tmp_path: Path) -> None:
    quiet, watched = tmp_path / "quiet", tmp_path / "watched"
    for folder in (quiet, watched):
        folder.mkdir()
    gate = tmp_path / "gate"
    words = ["--steps", "150", "--sleep", "0.02"]
    ssh_hosts.torchrun(hosts, "ddp_ranks.py", *words, folder=quiet)
    assert until(lambda: len(losses(hosts, quiet)) == 450, STARTS_S)
    for process in [process for host in hosts for process in host.started]:
        process.wait(STARTS_S)
    ssh_hosts.torchrun(hosts, "ddp_ranks.py", *words, "--gate", str(gate), folder=watched)
    said(hosts[0], watched, "ready")
    with traindbg.attach(ALL) as job:
        gate.touch()
        job.stacks(), job.steps(), job.grads(), job.lr(), job.collectives()
    assert until(lambda: len(losses(hosts, watched)) == 450, STARTS_S)
    assert losses(hosts, watched) == losses(hosts, quiet)


def test_a_rank_that_is_stuck_over_there_is_named_with_host_file_and_line(
    hosts: list[Host], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trains(hosts, tmp_path, "--lost", "1", "8")
    assert cli.main(["diagnose", ALL, "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    first = told["verdict"][0]
    assert (told["state"], first["who"]) == ("stuck", ["rank 1"])
    assert re.search(r"ddp_ranks\.py:\d+ loses_its_way$", first["where"])
    assert any("on beta" in line for line in first["evidence"])
    assert [rank["host"] for rank in told["ranks"]] == ["alpha", "beta", "gamma"]
    assert cli.main(["nccl-check", ALL, "--json"]) == 1
    first = json.loads(capfd.readouterr().out)["verdict"][0]
    assert first["who"] == ["rank 1"]
    assert any("loses_its_way" in line for line in first["source"]["lines"]), "as beta has the file"


def test_what_grows_on_two_hosts_is_one_finding_with_the_line_that_keeps_it(
    hosts: list[Host], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    two = hosts[:2]
    ssh_hosts.torchrun(two, "leaks/losses.py", folder=tmp_path)
    for host in two:
        assert until(lambda host=host: steps(host, tmp_path) > 60, STARTS_S)
    for verb in ("memory", "diagnose"):
        assert cli.main([verb, "ssh:alpha,beta:torchrun", "--json"]) == 1
        told = [f for f in json.loads(capfd.readouterr().out)["verdict"] if f["code"] == "graphs_kept"]
        assert [(f["who"], f["source"]["lines"][3].strip()) for f in told] == [
            (["rank 0", "rank 1"], "losses.append(loss)  # leaks")
        ], verb


def test_a_slow_line_in_a_loaders_worker_is_named_whichever_host_it_is_on(
    hosts: list[Host], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    two = hosts[:2]
    ssh_hosts.torchrun(two, "slow/straggler_data.py", folder=tmp_path)
    assert until(lambda: steps(two[0], tmp_path) > 20, STARTS_S)
    assert cli.main(["slow", "ssh:alpha,beta:torchrun", "--seconds", "6", "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    first = told["causes"][0]["finding"]
    assert (first["code"], first["who"]) == ("data_wait", ["rank 1"])
    assert first["where"].endswith("Sharded.__getitem__")
    assert "# the slow line" in "".join(first["source"]["lines"])
    assert any("num_workers" in step for step in first["next_steps"])
    assert [rank["rank"] for rank in told["ranks"]] == [0, 1]


def test_variables_that_differ_between_hosts_are_told_and_threads_also_of_a_rank_with_a_secret(
    hosts: list[Host], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A secret is taken out where the rank is: on a host on which none of our libraries is."""
    own = {"alpha": {"OMP_NUM_THREADS": "1"}, "beta": {"OMP_NUM_THREADS": "2", "API_KEY": "Qx7pQ2rT9w"}}
    ssh_hosts.torchrun(hosts[:2], "ddp_ranks.py", folder=tmp_path, own=own)
    said(hosts[0], tmp_path, "ready")
    assert cli.main(["environ", "ssh:alpha,beta:torchrun", "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    rows = {row["name"]: row for row in told["rows"]}
    threads = rows["OMP_NUM_THREADS"]
    assert [(value["value"], value["ranks"]) for value in threads["values"]] == [("1", [0]), ("2", [1])]
    assert threads["standing"] == "differs"
    assert cli.main(["threads", "ssh:alpha,beta:torchrun", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert {process["rank"] for process in told["processes"]} == {0, 1}
    assert not told["silent"]


def test_a_host_that_hangs_or_is_gone_is_named_and_holds_up_nobody(hosts: list[Host], tmp_path: Path) -> None:
    trains(hosts, tmp_path, "--sleep", "0.02")
    _, beta, gamma = hosts
    with traindbg.attach(ALL) as job:
        job.steps()
        gamma.cut_off()
        late = job.steps(timeout=2.0)
        assert [(s.rank, "gamma" in s.reason) for s in late.silent] == [(2, True)]
        assert [rank.rank for rank in late.ranks] == [0, 1]
        seen = job.diagnose()
        assert [(f.code, f.severity, list(f.who)) for f in seen.findings] == [
            ("host_unreachable", "warning", ["rank 2"])
        ]
        assert seen.ranks[2].state == "not known"
        with pytest.raises(ActionRefused, match="rank 2"):
            job.set_lr(1e-4)
        assert {rank.lr[0] for rank in job.steps(last=1, timeout=2.0).ranks for rank in rank.steps} == {1e-2}, (
            "nothing was changed"
        )
        beta.end()
        assert until(lambda: job.diagnose().findings[0].severity == "critical", 60), (
            "who waits for its rank, or lost it"
        )
        first = job.diagnose().findings[0]
        assert (first.code, list(first.who)) == ("host_unreachable", ["rank 1", "rank 2"])
        began = time.monotonic()
    assert time.monotonic() - began < 30, "closing waits for nobody for ever"


def test_one_of_several_hosts_that_cannot_be_reached_is_left_out_and_said(hosts: list[Host], tmp_path: Path) -> None:
    trains(hosts[:2], tmp_path, "--sleep", "0.02")
    with traindbg.attach("ssh:alpha,beta,nowhere:torchrun") as job:
        assert [rank.rank for rank in job.ranks] == [0, 1]
        assert "nowhere" in job.attached().silent[0].reason
        assert "nowhere" in job.diagnose().findings[0].title


def test_ranks_that_no_launcher_has_started_are_one_job(hosts: list[Host], tmp_path: Path) -> None:
    ssh_hosts.ranks(hosts, "ddp_ranks.py", "--sleep", "0.02", per_host=2, folder=tmp_path)
    said(hosts[0], tmp_path, "ready")
    with traindbg.attach("ssh:alpha,beta,gamma") as job:
        assert [(rank.rank, rank.host) for rank in job.ranks] == [(n, hosts[n // 2].name) for n in range(6)]
        assert {rank.state for rank in job.set_lr(scale=0.5).ranks} == {"verified"}
        pid = job.ranks[3].pid
    with traindbg.attach(f"ssh:alpha,beta,gamma:{pid}") as job:
        assert len(job.ranks) == 6, "the rank is one of this job"


def test_what_runs_on_hosts_is_listed_and_what_is_meant_must_be_clear(hosts: list[Host], tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    trains(hosts[:2], tmp_path / "one", "--sleep", "0.02")
    trains(hosts[2:], tmp_path / "two", "--sleep", "0.02")
    hosts[1].prints("Welcome to beta!\n")
    named = parse_target("ssh:alpha,beta,gamma")
    assert named is not None
    seen = targets_on(named)
    whole = [target for target in seen.targets if target.part_of is None]
    assert [re.sub(r"\d+$", "PID", target.name) for target in whole] == [
        "ssh:alpha,beta:torchrun:PID",
        "ssh:gamma:torchrun:PID",
    ]
    assert {t.part_of for t in seen.targets if t.rank is not None} == {target.name for target in whole}
    with traindbg.attach(whole[0].name) as job:
        assert [rank.host for rank in job.ranks] == ["alpha", "beta"]
    with pytest.raises(AmbiguousTarget, match="2 jobs") as several:
        traindbg.attach("ssh:alpha,beta,gamma")
    for advised, hosts_of_it in zip(several.value.candidates, (["alpha", "beta"], ["gamma"]), strict=True):
        with traindbg.attach(advised) as job:
            assert [rank.host for rank in job.ranks] == hosts_of_it
    with traindbg.attach("ssh:beta:torchrun") as part:
        assert [rank.rank for rank in part.ranks] == [1]
        with pytest.raises(ActionRefused, match="only rank 1 of 2"):
            part.set_lr(1e-3)
    with pytest.raises(NoTarget, match="no 4194300 on alpha, beta"):
        traindbg.attach("ssh:alpha,beta:4194300")
    (tmp_path / "ssh" / "authorized_keys").write_text("")
    remote.hang_up()
    with pytest.raises(NotPermitted, match=r"alpha cannot be reached.*Permission denied"):
        traindbg.attach("ssh:alpha:torchrun")
