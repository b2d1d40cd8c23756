"""A report of a real process that is full of secrets: none of them is in any byte of the bundle, and all the rest is."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from planted_job import assert_clean, secrets
from support import Program

from jupyter_traindbg.cli import main


def test_a_stopped_process_is_reported_from_outside(
    full_of_secrets: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.kill(full_of_secrets.pid, signal.SIGSTOP)
    path = tmp_path / "stopped.zip"
    assert main(["report", str(full_of_secrets.pid), "-o", str(path), "--timeout", "4"]) == 1
    said = capsys.readouterr().out
    assert "rank_stopped" in said
    assert not [secret for secret in secrets() if secret in said], "nor what is printed"
    files = assert_clean(path)
    assert "leaky.py" in files["stacks.txt"]
    parts = json.loads(files["report.json"])["parts"]
    assert "stopped" in parts["steps"]["not_available"]
    assert parts["diagnosis"]["results"][0]["findings"][0]["code"] == "rank_stopped"
