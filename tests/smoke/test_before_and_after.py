"""Without a job: the log of one that crashed, the configuration of one to come, and the bundle for whoever is to help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import planted
import pytest
from planted_job import assert_clean
from support import REPO, Program, Start, torchrun

import traindbg
from jupyter_traindbg import cli

RUN = """\
#!/bin/bash
torchrun --nproc-per-node 4 train.py --micro_train_batch_size 2 --train_batch_size {batch} \\
    --rollout_batch_size 16 --n_samples_per_prompt 4 --zero_stage 3 --bf16
"""
ON_FOUR = ("--gpus", "4", "--gpu-memory", "80GiB", "--cpus", "64", "--memory", "500GiB")
CRASHES = REPO / "notebooks" / "crash_train.py"
WRITE_NIGHTS = (
    "import crash_train, pathlib, sys; crash_train.write_nights(pathlib.Path(sys.argv[1]), 4, counts_from_one=3)"
)


def test_the_root_cause_is_read_from_the_log_of_a_crash(
    start: Start, free_port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 fails on a label and goes on sending curves; rank 0, which waits for it, is what torchrun blames."""
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    nights = tmp_path / "nights"
    subprocess.run([sys.executable, "-c", WRITE_NIGHTS, nights], cwd=CRASHES.parent, check=True, timeout=60)
    crashed = start(str(CRASHES), str(nights), command=torchrun(2, free_port), ready=None)
    assert crashed.wait(100) != 0
    assert cli.main(["diagnose", str(crashed.log), "--json"]) == cli.FINDINGS
    first = json.loads(capsys.readouterr().out)["findings"][0]
    line = next(n for n, text in enumerate(CRASHES.read_text().splitlines(), 1) if "F.cross_entropy" in text)
    assert (first["code"], first["who"]) == ("index_out_of_range", ["rank 1"])
    assert first["where"].endswith(f"crash_train.py:{line} train")


def test_a_healthy_log_gives_no_finding_and_a_missing_one_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy = tmp_path / "healthy.log"
    healthy.write_text("".join(f"INFO step {n} loss: {2 - n / 50:.3f} lr: 1.0e-05\n" for n in range(50)) + "done\n")
    assert traindbg.diagnose_log(str(healthy)) == []
    assert cli.main(["diagnose", str(tmp_path / "no-such.log")]) == cli.COULD_NOT
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_configuration_is_mended_by_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    script = tmp_path / "run.sh"
    script.write_text(RUN.format(batch=60))
    assert cli.main(["preflight", str(script), *ON_FOUR]) == cli.FINDINGS
    told = " ".join(capsys.readouterr().out.split())
    assert "train_batch_size 60 % (micro_train_batch_size 2 x 4 processes = 8) = 4" in told
    assert "Set train_batch_size to 56 or 64" in told
    script.write_text(RUN.format(batch=64))
    assert cli.main(["preflight", str(script), *ON_FOUR]) == cli.DONE


def test_no_secret_of_a_live_job_gets_into_a_bundle(full_of_secrets: Program, tmp_path: Path) -> None:
    with traindbg.attach(full_of_secrets.pid) as job:
        token = json.loads(Path(job._links[0].client.directory, "agent.json").read_text())["token"]  # type: ignore[union-attr]
        made = job.report(str(tmp_path / "live.zip"), timeout=10)
    files = assert_clean(tmp_path / "live.zip", token)
    log = next(text for name, text in files.items() if name.startswith("logs/"))
    for line in planted.HARMLESS:
        assert line in log, "what is no secret stays"
    assert "connect(password=«redacted:" in files["stacks.txt"].replace("'", ""), (
        "the line of the frame is there, without the password"
    )
    config = next(text for name, text in files.items() if name.startswith("config/"))
    assert config.startswith("lr: 0.1\nmax_tokens: 4096\n")
    number = next(r for r in made.redacted if "environment.txt" in r.where and r.kind == "secret")
    assert f"«redacted:secret#{number.number}»" in files["environment.txt"]
    assert log.count(log.split("sent ")[1].split(" to the server")[0]) >= 3, "one secret, one number, in three codings"
    assert {r.kind for r in made.redacted} >= {"aws-key", "github-token", "jwt", "private-key", "password", "api-key"}
    told = json.loads(files["report.json"])
    assert {row["number"] for row in told["redacted"]} == {r.number for r in made.redacted}
