"""From files that were sent to one verdict: `traindbg.diagnose_dumps`, and the verb on dumps of stacks, logs and recorders."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from cases import each
from dumps import ALL_REDUCE, BACKWARD, BARRIER, FORWARD, NEW_GROUP, SLEEPS, joining, making, py_spy, write
from flight_dumps import Recorder
from flight_dumps import write as write_records

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.errors import BadDump, BadLog
from jupyter_traindbg.model import DumpDiagnosis, LogDiagnosis
from jupyter_traindbg.questions.jobless import log, sent

STUCK = (ALL_REDUCE, SLEEPS, ALL_REDUCE, ALL_REDUCE)
OOM = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/home/u/train.py", line 41, in step\n[rank1]:     loss.backward()\n'
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 1 has a total capacity of 31.74 GiB of which "
    "1.25 GiB is free.\n"
)
TIMED_OUT = (
    "step 15 loss 0.30\n"
    "[rank0]: [E ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=16, "
    "OpType=ALLREDUCE, NumelIn=1000, NumelOut=1000, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)


def diagnose(*words: str) -> int:
    return cli.main(["diagnose", *words])


def of(paths: Any) -> DumpDiagnosis:
    found = sent.diagnose_dumps(paths)
    assert isinstance(found, DumpDiagnosis)
    return found


def test_the_rank_that_holds_up_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, STUCK)
    found = of(paths)
    (finding,) = found.findings
    assert (finding.code, finding.ranks, finding.where, finding.confidence) == (
        "python_wait",
        (1,),
        "data.py:17 next_batch",
        "medium",
    )
    assert (found.state, [r.pid for r in found.ranks]) == ("not known", [4000, 4001, 4002, 4003])
    assert any("rank1.txt" in words for words in finding.evidence)
    assert found.missing
    assert traindbg.diagnose_dumps(tmp_path).findings == found.findings
    assert traindbg.diagnose_dumps(str(tmp_path / "rank*.txt")).findings == found.findings
    assert diagnose(*paths) == cli.FINDINGS
    out = capsys.readouterr().out
    assert "If the job stands still, rank 1 holds it up" in out
    assert "stuck" not in out
    assert diagnose(*paths, "--json") == cli.FINDINGS
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["who"] == ["rank 1"]
    assert [file["kind"] for file in answer["files"]] == ["stacks"] * 4


@each("name", ["py-spy-rank-{}.dump", "rank_{}", "node1/rank{}/stacks.out", "stacks.{}.txt"])
def test_names_that_tell_the_rank(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("dumps")
    for rank in range(4):
        (directory / name.format(rank)).parent.mkdir(parents=True, exist_ok=True)
    write(directory, STUCK, name=name)
    assert of(str(directory)).findings[0].ranks == (1,)


def test_names_that_do_not_number_the_processes_and_say_so(tmp_path: Path) -> None:
    for i, frames in enumerate(STUCK):
        (tmp_path / f"node{i // 2}_pid_{4711 + 7 * i}.txt").write_text(py_spy(4711 + 7 * i, frames))
    found = of(tmp_path)
    assert [r.pid for r in found.ranks] == [4711, 4718, 4725, 4732]
    assert any("nothing tells which ranks" in words for words in found.missing)


def test_the_same_pid_on_two_nodes_is_two_processes(tmp_path: Path) -> None:
    for node in range(2):
        (tmp_path / f"node{node}_pid_4711.txt").write_text(py_spy(4711, STUCK[node]))
    assert [r.pid for r in of(tmp_path).ranks] == [4711, 4711]


def test_a_local_rank_is_one_where_nobody_else_tells_and_all_differ(tmp_path: Path) -> None:
    frames = [*SLEEPS[:2], "next_batch (data.py:17)\n        Locals:\n            rank: {}", *SLEEPS[3:]]

    def ranks(*values: int, name: str = "pid_{}.txt") -> list[int]:
        for path in tmp_path.iterdir():
            path.unlink()
        for i, value in enumerate(values):
            (tmp_path / name.format(4711 + 7 * i)).write_text(py_spy(4711 + 7 * i, [f.format(value) for f in frames]))
        return [r.rank for r in of(tmp_path).ranks if r.pid]

    assert ranks(2, 1) == [1, 2]
    assert ranks(8, 8) == [0, 1], "that of a matrix"
    assert ranks(8, name="rank0_{}.txt") == [0], "the file's name tells"


def test_two_looks_tell_whether_it_moves(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory, frames in ((first, STUCK), (second, STUCK)):
        directory.mkdir()
        write(directory, frames)
    found = of(tmp_path)
    assert (found.state, found.findings[0].confidence) == ("stuck", "high")
    write(second, (ALL_REDUCE, FORWARD, ALL_REDUCE, ALL_REDUCE))
    found = of(tmp_path)
    assert found.state == "progressing"
    assert [f.code for f in found.findings] == ["cpu_phase"]


def test_ranks_that_wait_in_different_calls(tmp_path: Path) -> None:
    (finding,) = of(write(tmp_path, (BARRIER, BACKWARD, BACKWARD, BACKWARD))).findings
    assert (finding.code, finding.ranks, finding.where) == ("collective_mismatch", (0,), "train.py:60 evaluate")


def test_locals_tell_which_process_group_each_rank_makes(tmp_path: Path) -> None:
    stacks = [making("1", (0, 1, 2)), making("2", (0, 1, 2)), making("1", (0, 1, 2)), making("2", (2, 3))]
    found = of(write(tmp_path, stacks))
    assert [(f.code, f.ranks, f.where) for f in found.findings] == [
        ("collective_order", (1,), "train.py:30 make_groups")
    ]
    assert not any("process group" in words for words in found.missing)
    found = of(write(tmp_path, [NEW_GROUP] * 4))
    assert [(f.code, f.confidence) for f in found.findings] == [("hang_unexplained", "low")]
    assert any("which process group each rank makes" in words for words in found.missing)


@each(
    "stacks, code, ranks, title",
    [
        ([joining(i, 3, port=9 if i == 1 else 29500) for i in range(3)], "init_incomplete", (1,), "at 10.0.0.1:9, ranks 0, 2 at"),
        ([joining(i, 3, port=9 if i == 1 else None) for i in range(3)], "init_incomplete", (1,), "past the job's store at 10.0.0.1:9"),
        ([joining(i, 4 if i == 2 else 3) for i in range(3)], "init_incomplete", (2,), "expects 4 ranks, the others 3"),
        ([joining(min(i, 1), 3) for i in range(3)], "init_incomplete", (2,), "join as rank 1 (pids 4001, 4002)"),
        ([joining(i, 4) for i in range(3)], "hang_unexplained", (3,), "of which nothing can be seen"),
        ([joining(i, 3) for i in range(3)], "hang_unexplained", (), "All ranks wait for each other"),
    ],
)  # fmt: skip
def test_locals_tell_what_each_rank_was_told_on_its_way_into_the_process_group(
    stacks: list[tuple[str, ...]],
    code: str,
    ranks: tuple[int, ...],
    title: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = of(write(tmp_path_factory.mktemp("dumps"), stacks))
    assert [(f.code, f.ranks) for f in found.findings] == [(code, ranks)]
    assert title in found.findings[0].title
    assert not any("--locals" in words or "flight recorders" in words for words in found.missing)


def test_where_nothing_is_seen_to_be_wrong_nothing_is_called_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.txt").write_text(py_spy(4000 + rank, FORWARD, state="active+gil"))
    assert diagnose(str(tmp_path)) == cli.COULD_NOT
    out, err = capsys.readouterr()
    assert "does not tell whether the job is stuck" in out
    assert "once" in err


def test_a_rank_that_was_not_dumped_is_named(tmp_path: Path) -> None:
    paths = write(tmp_path, (ALL_REDUCE,) * 4)
    (finding,) = of([paths[0], paths[1], paths[3]]).findings
    assert finding.ranks == (2,)


def test_a_pasted_text() -> None:
    found = sent.diagnose_dumps("it hangs since noon:\n```\n" + py_spy(4711, SLEEPS) + "```\n")
    assert found.findings[0].where == "data.py:17 next_batch"
    with pytest.raises(BadDump):
        sent.diagnose_dumps("it hangs\nsince noon\n")


# --- with logs and recorders


def test_logs_alone_are_judged_as_before(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("step 1\n")
    (tmp_path / "rank1.log").write_text(OOM)
    (tmp_path / "notes.json").write_text('{"entries": [1, 2]}')
    found, plain = sent.ask([str(tmp_path)], timeout=30), log.ask([str(tmp_path)], timeout=30)
    assert isinstance(found, LogDiagnosis)
    assert dataclasses.replace(found, taken_s=0.0, _course=None) == dataclasses.replace(
        plain, taken_s=0.0, _course=None
    )
    with pytest.raises(BadLog):
        sent.ask([str(tmp_path / "nothing-*.log")], timeout=5)


def test_what_a_log_tells_of_the_hang_is_evidence_of_what_the_stacks_tell(tmp_path: Path) -> None:
    write(tmp_path, STUCK)
    (tmp_path / "train.log").write_text(TIMED_OUT)
    found = of(tmp_path)
    (finding,) = found.findings
    assert (finding.code, found.state) == ("python_wait", "stuck"), "a time-out was over"
    assert any("train.log" in words for words in finding.evidence)
    assert [f.kind for f in found.files] == ["stacks"] * 4 + ["log"]


def test_what_ended_a_rank_is_the_root_of_who_waits_for_it(tmp_path: Path) -> None:
    paths = write(tmp_path, (ALL_REDUCE,) * 4)
    os.unlink(paths[1])
    (tmp_path / "train.log").write_text(OOM)
    found = of(tmp_path)
    (finding,) = found.findings
    assert (finding.code, finding.ranks, found.state) == ("cuda_oom", (1,), "failed")


def test_recorders_number_the_calls_that_stacks_cannot_tell_apart(tmp_path: Path) -> None:
    write(tmp_path, (ALL_REDUCE,) * 4)
    recorders = [Recorder("gloo").call("all_reduce", times=15).call("all_reduce", done=False) for _ in range(4)]
    recorders[1] = Recorder("gloo").call("all_reduce", times=15).call("barrier", done=False)
    write_records(tmp_path / "recorders", [(i, r.dump()) for i, r in enumerate(recorders)])
    found = of(tmp_path)
    (finding,) = found.findings
    assert (finding.code, finding.ranks, finding.confidence) == ("collective_mismatch", (1,), "high")
    assert {f.kind for f in found.files} == {"stacks", "recorder"}


def test_recorders_and_logs_without_stacks(tmp_path: Path) -> None:
    recorders = [
        Recorder("gloo").call("all_reduce", times=15).call("all_reduce" if i else "barrier", done=False)
        for i in range(4)
    ]
    write_records(tmp_path / "recorders", [(i, r.dump()) for i, r in enumerate(recorders)], as_json=True)
    (tmp_path / "train.log").write_text(TIMED_OUT)
    found = of(tmp_path)
    assert (found.findings[0].code, found.findings[0].ranks, found.state) == ("collective_mismatch", (0,), "stuck")


def test_a_text_that_is_both_is_read_as_both(tmp_path: Path) -> None:
    path = tmp_path / "issue.txt"
    path.write_text(OOM + "\nand the other rank:\n\n" + py_spy(4000, ALL_REDUCE))
    found = of(path)
    assert found.findings[0].code == "cuda_oom"
    assert found.ranks[0].where == "train.py:42 train_step"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    write(tmp_path, STUCK)
    (tmp_path / "recorder_rank_0.json").write_text('{"entries": [{"profiling_name": "gloo:x", "pg_config"')
    (tmp_path / "weights.txt").write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    found = of(tmp_path)
    assert found.findings[0].ranks == (1,)
    assert "unread" in {f.kind for f in found.files}


def test_damaged_recorders_alone_are_one_clear_line_and_beside_a_log_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "recorder_rank_0.json").write_text('{"entries": [{"profiling_name": "gloo:x", "pg_config"')
    with pytest.raises(BadDump, match=r"recorder_rank_0\.json cannot be read as a flight-recorder dump: it is damaged"):
        of(tmp_path)
    (tmp_path / "train.log").write_text(OOM)
    found = of(tmp_path)
    assert (found.findings[0].code, found.state) == ("cuda_oom", "failed")
    assert [f.kind for f in found.files] == ["unread", "log"]


# --- the source


def training(directory: Path) -> Path:
    path = directory / "train.py"
    path.write_text(
        "import time\n\n\ndef wait_for_quota():\n    while True:\n        time.sleep(600)\n\n\nwait_for_quota()\n"
    )
    os.utime(path, (time.time() - 100,) * 2)
    return path


def sleeping(directory: Path, script: Path, *, line: int = 6) -> Path:
    path = directory / "rank0.txt"
    path.write_text(
        py_spy(1, (f"wait_for_quota ({script}:{line})", f"<module> ({script}:9)")).replace(
            "/nowhere/bin/python3.11", "/bin/sh"
        )
    )
    return path


def test_the_line_is_shown_and_read_where_the_file_is_certainly_the_same(tmp_path: Path) -> None:
    script = training(tmp_path)
    (finding,) = of(sleeping(tmp_path, script)).findings
    assert finding.source is not None
    assert "sleeps" in finding.title


@each("change", ["newer than the dump", "another function there", "it calls something else", "another interpreter"])
def test_a_file_that_may_be_another_one_is_not_used(change: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("job")
    script = training(directory)
    dump = sleeping(directory, script)
    if change == "newer than the dump":
        os.utime(script, (time.time() + 100,) * 2)
    elif change == "another function there":
        dump = sleeping(directory, script, line=1)
    elif change == "it calls something else":
        script.write_text(script.read_text().replace("\nwait_for_quota()", "\nother()"))
        os.utime(script, (time.time() - 100,) * 2)
    else:
        dump.write_text(dump.read_text().replace("/bin/sh", "/nowhere/bin/python3.11"))
    (finding,) = of(dump).findings
    assert finding.source is None
    assert "sleeps" not in finding.title


def test_locals_are_shown_without_secrets(tmp_path: Path) -> None:
    dump = py_spy(1, SLEEPS).replace(
        "next_batch (data.py:17)",
        'next_batch (data.py:17)\n        Locals:\n            n: 3\n            api_key: "hunter2hunter2"',
    )
    (tmp_path / "rank0.txt").write_text(dump)
    found = of(tmp_path)
    assert found.variables[0]["n"] == "3"
    assert "hunter2" not in json.dumps(found.to_dict())


def test_a_rank_of_any_number_costs_no_more_than_a_small_one(tmp_path: Path) -> None:
    (tmp_path / "rank999999.txt").write_text(py_spy(1, SLEEPS))
    found = of(tmp_path)
    assert [r.rank for r in found.ranks] == [999_999]
