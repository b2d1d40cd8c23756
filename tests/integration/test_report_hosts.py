"""A report of a job on hosts that a real ssh reaches: what each of them has is in it, and no secret of any is in any byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import ssh_hosts
from planted_job import assert_clean
from ssh_hosts import Host
from support import until

import traindbg

pytestmark = pytest.mark.timeout(300)
SECRET, PRIVATE = "Beta-0nly-Pa55", "Pr0xy/Beta-31"
OWN = {"beta": {"TEAM_PASSWORD": SECRET, "NCCL_PLUGIN_SECRET": PRIVATE, "NCCL_ALGO": "Tree"}}
"""Variables of one host alone: two secrets, one of which has to do with training, and what its ranks should not differ in."""


def test_the_report_has_what_each_host_has_and_names_the_one_that_is_cut_off(hosts: list[Host], tmp_path: Path) -> None:
    ssh_hosts.torchrun(hosts, "ddp_ranks.py", "--sleep", "0.05", folder=tmp_path, own=OWN)
    log = tmp_path / "alpha.log"
    until(lambda: log.exists() and "ready" in log.read_text(), timeout_s=90)
    with (tmp_path / "beta.log").open("a") as f:
        f.write(f"sent {SECRET} to the server\n")
    with (tmp_path / "gamma.log").open("a") as f:
        f.write(f"heard {PRIVATE} of beta\n")
    with traindbg.attach("ssh:alpha,beta,gamma:torchrun") as job:
        made = job.report(str(tmp_path / "all.zip"))
        hosts[2].cut_off()
        without = job.report(str(tmp_path / "without.zip"), timeout=6.0)
    files = assert_clean(tmp_path / "all.zip", SECRET, PRIVATE)
    assert_clean(tmp_path / "without.zip", SECRET, PRIVATE)

    for host in hosts:
        assert f"rank {host.number - 1}" in files[f"hosts/{host.name}/commands.txt"]
        assert f"# rank {host.number - 1}" in files[f"hosts/{host.name}/environment.txt"]
        assert "Linux" in files[f"hosts/{host.name}/machine.txt"]
        assert files[f"hosts/{host.name}/logs/{host.name}.log.last500.txt"].startswith(f"# {tmp_path}/{host.name}.log")
    assert [name for name in files if name.endswith("packages.txt")] == ["hosts/alpha/packages.txt"]
    assert 'packages.txt</a> <span class="same">(the same on all hosts)' in files["index.html"]
    assert "«redacted:" in files["hosts/beta/logs/beta.log.last500.txt"]
    assert "«redacted:" in files["hosts/gamma/logs/gamma.log.last500.txt"], (
        "what one host calls a secret is one in another's log"
    )
    assert "TEAM_PASSWORD" not in "".join(files.values()), "it has nothing to do with training"

    assert not [words for part in made.parts for words in part.missing if "failed" in words]
    told = json.loads(files["report.json"])["parts"]
    rows = told["hosts"]["data"]["hosts"]
    assert [(row["name"], row["ranks"]) for row in rows] == [("alpha", [0]), ("beta", [1]), ("gamma", [2])]
    assert {row["values"]["torch"] for row in rows} == {_torch()}
    differ = {one["what"]: one["values"] for one in told["hosts"]["data"]["differences"]}
    assert differ["NCCL_ALGO"] == [["", ["alpha", "gamma"]], ["Tree", ["beta"]]]
    assert not {"host", "commands", "versions", "kernel_log", "pci", "logs"} & told.keys(), "of the machine that asks"
    assert "NCCL_ALGO" in made.parts[[p.name for p in made.parts].index("hosts")].summary
    assert f"torch {_torch()}" in files["issue.md"]
    assert "- System: Linux" in files["issue.md"]

    lost = next(part for part in without.parts if part.name == "hosts")
    assert "1 gave no answer" in lost.summary
    assert any(words.startswith("gamma (rank 2): gamma did not answer") for words in lost.missing), lost.missing
    assert {"hosts/alpha/machine.txt", "hosts/beta/machine.txt"} <= {file.name for file in without.files}
    assert not [file.name for file in without.files if file.name.startswith("hosts/gamma")]
    assert not [part.name for part in without.parts if part.name in ("stacks", "steps", "memory") and part.empty]


def _torch() -> str:
    import importlib.metadata

    return importlib.metadata.version("torch")
