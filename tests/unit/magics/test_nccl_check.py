"""The verb `nccl-check` on dumps: what it prints, its exit status, and which words mean a dump; and what a rank at work is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flight_dumps import Recorder, write

from jupyter_traindbg import cli
from jupyter_traindbg.model import Finding, RankCollectives, rank_subjects
from jupyter_traindbg.questions import collectives
from jupyter_traindbg.questions.jobless import dumps

WORLD = {"0": ("default_pg", range(4)), "1": ("mesh_tp", [0, 1]), "2": ("mesh_tp", [2, 3])}


def four(library: str, *, stuck: bool) -> list[tuple[int, Recorder]]:
    made = []
    for rank in range(4):
        groups = {name: g for name, g in WORLD.items() if rank in g[1]}
        recorder = Recorder(library, groups).call("all_reduce", times=3).call("all_gather", str(1 + rank // 2))
        made.append((rank, recorder.call("all_reduce", done=False) if stuck and rank != 1 else recorder))
    return made


@pytest.mark.parametrize("library", ["nccl", "gloo"])
def test_dumps_of_a_job_that_hangs(tmp_path: Path, library: str, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write(tmp_path / "fr", [(rank, r.dump()) for rank, r in four(library, stuck=True)])
    assert cli.main(["nccl-check", str(directory)]) == 1
    text = capsys.readouterr().out
    assert "Rank 1 has not issued all_reduce #4 of the default group, in which ranks 0, 2, 3" in " ".join(text.split())
    assert "3 of 4 ranks wait in all_reduce #4 of the default group; rank 1 is not in it · ranks 0-3 (4)" in text
    assert "from dumps" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("rank 1 ", "ranks 0, 2, 3"))]
    assert rows[0][:8] == ["rank", "1", "3", "/", "3", "1", "/", "1"], "who is to blame comes first"
    assert "4 / 3" in " ".join(rows[1])
    assert cli.main(["nccl-check", str(directory), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["who"] == ["rank 1"]
    assert answer["findings"] == answer["verdict"]


def test_dumps_in_which_all_wait_and_nobody_is_missing_are_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = [(rank, r.call("barrier", done=False).dump()) for rank, r in four("nccl", stuck=False)]
    assert cli.main(["nccl-check", str(write(tmp_path / "fr", stuck))]) == cli.FINDINGS
    said = " ".join(capsys.readouterr().out.split())
    assert "Ranks 0-3 wait in barrier #4 of the default group" in said
    assert "and nobody is missing in it hang_unexplained" in said


def test_dumps_of_a_job_in_which_nobody_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write(tmp_path / "fr", [(rank, r.dump()) for rank, r in four("nccl", stuck=False)], as_json=True)
    assert cli.main(["nccl-check", str(directory)]) == 0
    assert "mesh_tp (2 groups)" in capsys.readouterr().out


def test_a_directory_without_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["nccl-check", str(tmp_path)]) == 3
    assert "has no flight-recorder dumps; dumps are the files that TORCH_FR_DUMP_TEMP_FILE" in capsys.readouterr().err


def test_in_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    directory = write(tmp_path / "fr", [(rank, r.dump()) for rank, r in four("nccl", stuck=True)])
    (finding,) = dumps.ask(str(directory), timeout=10).findings
    assert "没有发出默认进程组的 all_reduce #4" in finding.title
    assert all(any("\u4e00" <= c <= "\u9fff" for c in line) for line in [*finding.evidence, *finding.next_steps])


# --- live: a rank at work ------------------------------------------------------------------------------------------


def finding(code: str, *ranks: int) -> Finding:
    return Finding(code, "critical", "", who=rank_subjects(ranks))


@pytest.mark.parametrize(
    ("waited_s", "kept"), [(20.0, ["collective_mismatch"]), (90.0, ["collective_not_issued", "collective_mismatch"])]
)
def test_a_rank_that_computes_is_noted_and_accused_only_after_a_minute(waited_s: float, kept: list[str]) -> None:
    records = [RankCollectives(0, 1, "agent", (), (), waiting_s=waited_s), RankCollectives(1, 2, "agent", (), ())]
    verdict = [finding("collective_not_issued", 1), finding("collective_mismatch", 1)]
    found, notes = collectives._without_busy(verdict, {1}, records)
    assert [f.code for f in found] == kept
    assert notes == ({1: collectives.BUSY} if waited_s < 60 else {})


def test_two_of_whom_only_one_computes_are_accused() -> None:
    records = [RankCollectives(0, 1, "agent", (), (), waiting_s=20.0)]
    verdict = [finding("collective_not_issued", 1, 2)]
    assert collectives._without_busy(verdict, {1}, records) == (verdict, {})
