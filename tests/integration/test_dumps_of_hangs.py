"""Jobs that hang, dumped by the real py-spy: the verdict on the dumps alone names the rank and the line that the live one does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import hangs
import pytest

from jupyter_traindbg import cli
from jupyter_traindbg.model import DumpDiagnosis
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.stacks import py_spy
from jupyter_traindbg.questions.jobless import sent

RANKS = 4


def ranks_below(launcher: int) -> dict[int, int]:
    """The pids of the ranks."""
    found = {}
    for process in procfs.descendants(launcher):
        rank = (procfs.environ(process.pid) or {}).get("RANK")
        if rank is not None and process.parent == launcher:
            found[int(rank)] = process.pid
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("queue_wait", []),
        ("skipped_all_reduce", []),
        ("new_group_order", ["--locals"]),
        ("startup_wrong_port", ["--locals"]),
        ("missing_send", ["--locals"]),
    ],
)
def test_the_dumps_of_a_hung_job_name_the_rank_and_the_line(
    name: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    with hangs.running(name, tmp_path, world=RANKS) as job:
        job.wait_for("ready")
        assert cli.main(["diagnose", job.target, "--json"]) == cli.FINDINGS, "it hangs by now"
        for rank, pid in ranks_below(job.pid).items():
            with (dumps / f"rank{rank}.txt").open("wb") as out:
                subprocess.run([py_spy(), "dump", *options, "--pid", str(pid)], stdout=out, check=True, timeout=60)
        culprit = job.culprit
    live = json.loads(capsys.readouterr().out)["findings"][0]
    found = sent.ask([str(dumps)], timeout=60)
    assert isinstance(found, DumpDiagnosis)
    (finding,) = found.findings
    assert finding.ranks == (culprit,)
    assert (finding.code, list(finding.who), finding.where) == (live["code"], live["who"], live["where"])
    assert finding.source is not None, "the file is here, and the same"
    assert found.state == "not known", "one look does not tell that it is stuck"
