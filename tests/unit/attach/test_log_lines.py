"""What the logs say that a job's processes write: found by what their output goes to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import needs_duckdb, until

from jupyter_traindbg.attach import process
from jupyter_traindbg.errors import DeadlineExceeded, NoTarget
from jupyter_traindbg.job import Job

SAYS = "import time; print({!r}, flush=True); time.sleep(60)"
KEY = "\n".join(
    (
        "-----BEGIN PRIVATE KEY-----",
        *(f"{n}MIIEvQIBADANBgkqhkiG9w0BAQEFAAS{n}" for n in range(4)),
        "-----END PRIVATE KEY-----",
    )
)
BY_NAME, BY_OPTION = "correct-horse-7battery-staple", "opened-with-5esame-today"
"""Of no shape that anybody would know: the one is the value of a variable, the other of an option."""


@contextmanager
def saying(output: Any, words: str = "step 1 loss 2.5", *args: str, **environ: str) -> Iterator[Job]:
    command = [sys.executable, "-I", "-S", "-c", SAYS.format(words), *args]
    with subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env={**os.environ, **environ}) as child:
        try:
            with Job(str(child.pid), [process.link(child.pid)]) as job:
                yield job
        finally:
            child.kill()


def test_lines_come_from_the_file_that_a_process_writes_to(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    with log.open("w") as output, saying(output) as job:
        until(log.read_text, "it has said something")
        told = job.log_lines(timeout=20.0)
    assert [line.text for line in told.lines] == ["step 1 loss 2.5"]
    assert [source.name for source in told.sources] == [str(log)]


@needs_duckdb
def test_no_query_sees_a_secret(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    said = f"token hf_{'Ab3' * 12}\nusing {BY_NAME} and {BY_OPTION}\n{KEY}\nstep 1 loss 2.5"
    with log.open("w") as output, saying(output, said, "--api-key", BY_OPTION, WANDB_API_KEY=BY_NAME) as job:
        until(lambda: "step 1" in log.read_text(), "it has said everything")
        lines = job.sql("select text from log_lines order by line", timeout=60.0).rows
        processes = job.sql("select command from processes", timeout=60.0).rows
        found = job.sql(f"select count(*) from log_lines where text like '%{BY_NAME[:9]}%'", timeout=60.0)
    told = "\n".join(row[0] for row in (*lines, *processes))
    for secret in ("hf_Ab3", BY_NAME, BY_OPTION, *KEY.splitlines()[1:-1]):
        assert secret not in told
    assert "using «redacted:api-key#" in told
    assert lines[-1][0] == "step 1 loss 2.5"
    assert [row[0].count("--api-key") for row in processes] == [1]
    assert found.rows == ((0,),), "it is gone before the query looks"


def test_lines_that_take_too_long_to_look_through_are_said_to(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    with log.open("w") as output, saying(output) as job:
        until(log.read_text, "it has said something")
        with pytest.raises(DeadlineExceeded, match="more lines than can be looked through"):
            job.log_lines(timeout=1e-9)


def test_a_job_that_writes_no_log_is_told_so() -> None:
    with saying(subprocess.DEVNULL) as job, pytest.raises(NoTarget, match="log"):
        job.log_lines(timeout=20.0)
