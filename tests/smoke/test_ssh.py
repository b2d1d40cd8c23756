"""A job that ssh leads to, by a real ssh and a real sshd. Several hosts: tests/integration/test_ssh.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import ssh_hosts
from support import Start, torchrun

from jupyter_traindbg import cli
from jupyter_traindbg.hosts.remote import hang_up


@pytest.mark.timeout(180)
def test_a_hung_job_is_judged_over_there(
    start: Start, free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINDBG_SSH", ssh_hosts.this_machine(tmp_path / "ssh", "alpha"))
    job = start("hung_gloo.py", command=torchrun(2, free_port), timeout_s=90)
    try:
        status = cli.main(["diagnose", f"ssh:alpha:torchrun:{job.pid}", "--json"])
    finally:
        hang_up()
    told = json.loads(capfd.readouterr().out)
    assert (status, told["state"]) == (1, "stuck")
    first = told["verdict"][0]
    assert first["who"] == ["rank 1"]
    assert "hung_gloo.py" in first["where"]
    assert first["where"].endswith("forgets_the_collective")
