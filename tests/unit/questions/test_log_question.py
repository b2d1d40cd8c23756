"""From a log to its verdict: `traindbg.diagnose_log`, and the verb on files, patterns, directories and standard input."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import hang_evidence
import pytest
from cases import each
from dumps import ALL_REDUCE, SLEEPS, py_spy

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.errors import BadLog
from jupyter_traindbg.magics.diagnose import is_log, is_ray
from jupyter_traindbg.questions.jobless import log, log_follow

OOM = (
    "epoch 1 begins\nTraceback (most recent call last):\n"
    '  File "/home/u/train.py", line 41, in step\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 31.74 GiB of which 1.25 GiB "
    "is free. Of the allocated memory 29.10 GiB is allocated by PyTorch, and 310.00 MiB is reserved by PyTorch but unallocated.\n"
)
HEALTHY = (
    "".join(f"2026-03-04 10:00:{i:02d} INFO step {i} loss: {2 - i / 50:.3f} lr: 1.0e-05\n" for i in range(50))
    + "done\n"
)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(OOM)
    return path


def diagnose(*words: str) -> int:
    return cli.main(["diagnose", *words])


# --- the function


def test_a_path_a_string_that_names_a_file_a_pattern_and_a_text(crashed: Path) -> None:
    found = traindbg.diagnose_log(crashed)
    assert found[0].code == "cuda_oom"
    assert found[0].where == "/home/u/train.py:41 step"
    assert traindbg.diagnose_log(str(crashed)) == found
    assert traindbg.diagnose_log(str(crashed.parent / "*.log")) == found
    assert traindbg.diagnose_log(crashed.parent)[0].code == "cuda_oom"
    assert traindbg.diagnose_log(OOM)[0].code == "cuda_oom"
    assert traindbg.diagnose_log(HEALTHY) == []


def test_a_name_with_a_space_is_a_file_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "my log.txt"
    path.write_text(OOM)
    assert traindbg.diagnose_log(str(path))[0].code == "cuda_oom"
    assert traindbg.diagnose_log(f"{tmp_path}/my *.txt")[0].code == "cuda_oom"


@each("words", ["nowhere.log", "", " \n", "logs/*.nothing"])
def test_what_is_neither_is_an_error(words: str) -> None:
    with pytest.raises(BadLog) as e:
        traindbg.diagnose_log(words)
    assert "\n" not in str(e.value)


def test_words_that_look_like_a_pattern_are_a_text() -> None:
    assert traindbg.diagnose_log("is this [a] pattern? *no*") == []
    assert traindbg.diagnose_log("x " * 10_000 + "\0") == []


# --- the verb


def test_the_verb_in_words_and_as_json(crashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose(str(crashed)) == 1
    words = capsys.readouterr().out
    assert "cuda_oom" in words
    assert "train.log:5 torch.OutOfMemoryError" in " ".join(words.split())
    assert diagnose(str(crashed), "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["code"] == "cuda_oom"
    assert answer["findings"][0]["evidence"][0].startswith("train.log:5 ")
    assert (answer["lines_read"], answer["bytes_read"]) == (5, len(OOM))


def test_a_healthy_log_gives_none_and_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text(HEALTHY)
    assert diagnose(str(path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_files_of_several_ranks_are_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(4):
        (tmp_path / f"rank{rank}.log").write_text(OOM if rank == 2 else HEALTHY)
    for words in ([str(tmp_path)], [str(tmp_path / "rank*.log")], [str(p) for p in sorted(tmp_path.iterdir())]):
        assert diagnose(*words, "--json") == 1
        answer = json.loads(capsys.readouterr().out)
        assert answer["findings"][0]["code"] == "cuda_oom"
        assert answer["findings"][0]["who"] == ["rank 2"]
        assert answer["findings"][0]["evidence"][0].startswith("rank2.log:5 ")
        assert answer["ranks"] == [0, 1, 2, 3]


@pytest.fixture
def stdin() -> Iterator[int]:
    """The writing end of what is standard input for a while."""
    saved = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)
    try:
        yield writer
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_standard_input(stdin: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(stdin, OOM.encode())
    os.close(stdin)
    assert diagnose("-", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["evidence"][0].startswith("standard input:5 ")
    assert answer["notes"] == []


def fed(writer: int, words: str) -> threading.Thread:
    """Somebody who writes it all, which is more than a pipe holds, and closes it."""

    def feed() -> None:
        with os.fdopen(writer, "w") as pipe:
            pipe.write(words)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    return feeder


def test_dumps_of_stacks_on_standard_input(stdin: int, capsys: pytest.CaptureFixture[str]) -> None:
    feeder = fed(stdin, "".join(py_spy(4000 + i, ALL_REDUCE) for i in range(400)) + py_spy(4711, SLEEPS))
    assert diagnose("-", "--json") == 1
    feeder.join(20)
    answer = json.loads(capsys.readouterr().out)
    assert [(f["code"], f["who"]) for f in answer["findings"]] == [("python_wait", ["rank 400"])]
    assert answer["files"] == [{"name": "standard input", "kind": "stacks", "words": ANY}]


def test_a_long_log_on_standard_input_in_which_there_is_a_dump(stdin: int, capsys: pytest.CaptureFixture[str]) -> None:
    step = "step 1 loss 0.30\n"
    feeder = fed(stdin, py_spy(4000, ALL_REDUCE) + step * 100_000 + OOM)
    assert diagnose("-", "--json") == 1
    feeder.join(20)
    answer = json.loads(capsys.readouterr().out)
    lines = len(py_spy(4000, ALL_REDUCE).splitlines()) + 100_000
    assert answer["findings"][0]["evidence"][0].startswith(f"standard input:{lines + 5} ")
    assert answer["notes"] == []


def test_standard_input_that_nobody_closes_ends_in_time(stdin: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(stdin, OOM.encode())
    assert diagnose("-", "--json", "--timeout", "0.3") == 1
    assert "in part" in json.loads(capsys.readouterr().out)["notes"][0]
    os.close(stdin)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "is empty"), (bytes(range(256)) * 50, "is not text"), (None, "no file")],
    ids=["empty", "binary", "not there"],
)
def test_broken_input_is_one_line_and_exit_3(
    tmp_path: Path, data: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.log"
    if data is not None:
        path.write_bytes(data)
    assert diagnose(str(path)) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_directory_without_logs_is_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert diagnose(str(tmp_path)) == 3
    assert "without logs" in capsys.readouterr().err


def test_truncated_and_mangled_logs_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    for data in (OOM.encode()[40:], OOM.encode()[:-60], OOM.encode("utf-16"), b"bad \xff\xfe\xfd\n" + OOM.encode()):
        path.write_bytes(data)
        assert diagnose(str(path), "--json") == 1
        assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "cuda_oom"


def test_a_line_of_ten_megabytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("x" * 10_000_000 + "\n" + OOM)
    assert diagnose(str(path), "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["code"] == "cuda_oom"
    assert answer["findings"][0]["evidence"][0].startswith("train.log:6 ")


def test_a_verdict_is_the_same_in_a_log_too_long_to_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text(HEALTHY * 400 + OOM)
    assert diagnose(str(path), "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"][0]["code"] == "cuda_oom"
    assert answer["findings"][0]["where"] == "/home/u/train.py:41 step"
    assert answer["findings"][0]["evidence"][0].startswith(f"train.log:{51 * 400 + 5} ")


# --- which words mean a log


@each(
    "words",
    ["4711", "self", "kernel:abc", "kernel:kernel-1.json", "torchrun:12", "ray:auto", "ray:job@host", "nonsense"],
)
def test_targets_stay_targets(words: str) -> None:
    assert not is_log(words)


@each("words", ["auto", "10.0.0.1:6379", "head:6379", "[::1]:6379", "ray://h:10001", "http://h:8265"])
def test_the_address_of_a_cluster_is_a_target_too(words: str) -> None:
    assert is_ray(words)
    assert not is_log(words)
    assert not any(
        is_ray(other) for other in ("train.log", "rank*.log", "4711", "torchrun:12", "kernel:1", "-", "a/b:12")
    )


def test_what_is_there_and_no_socket_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("agent.sock")
    listening.close()
    assert not is_log("agent.sock")
    assert all(is_log(words) for words in ("file", ".", str(tmp_path), "-", "logs/rank*", "missing.log", "missing.out"))


def test_several_targets_can_only_be_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose("4711", "4712") == 2
    assert "one can be diagnosed at a time" in capsys.readouterr().err


def test_the_last_words_of_ranks_that_have_ended_are_judged_as_a_log() -> None:
    said = tuple(OOM.splitlines())
    raised = (
        "Traceback (most recent call last):",
        '  File "/home/u/train.py", line 41, in step',
        "ValueError: odd label",
    )
    job = hang_evidence.job(
        hang_evidence.ended(0, exit_code=1, last_lines=said),
        hang_evidence.ended(1, exit_code=1, last_lines=raised),
        hang_evidence.ended(2, exit_code=1),
        hang_evidence.waiting(3),
    )
    endings = [rank.ending for rank in log.with_last_words(job).ranks]
    known = [None if ending is None or ending.failure is None else ending.failure.code for ending in endings]
    assert known == ["cuda_oom", None, None, None], (
        "an exception that only ended it says nothing more than its own line"
    )


def test_the_result_as_text_needs_no_terminal(crashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    assert diagnose(str(crashed)) == 1
    assert "\x1b" not in out.getvalue()


def test_a_log_that_is_followed_is_judged_to_its_very_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job crashes just after a look, and its process is gone at the next: why it crashed must not be lost to the pace of judging."""
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.0\n")
    there = iter([[os.getpid()], []])
    monkeypatch.setattr(log_follow, "writers", lambda path: next(there))
    monkeypatch.setattr(log_follow, "JUDGE_SHARE", 1e-9)
    following = log_follow.ask(str(log), every_s=0.01)
    assert next(following).findings == ()
    with log.open("a") as f:
        f.write("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    last = next(following)
    assert last.over
    assert [f.code for f in last.findings] == ["cuda_oom"]


def test_the_blamed_line_is_shown_where_its_file_is_here_and_says_the_same(tmp_path: Path) -> None:
    script, log = tmp_path / "train.py", tmp_path / "train.log"
    script.write_text("def step(batch):\n    loss = criterion(model(batch), target)\n    loss.backward()\n")
    log.write_text(
        "Traceback (most recent call last):\n"
        f'  File "{script}", line 2, in step\n'
        "    loss = criterion(model(batch), target)\n"
        "IndexError: Target 5 is out of bounds.\n"
    )
    (finding,) = traindbg.diagnose_log(log)
    assert finding.where == f"{script}:2 step"
    assert finding.source is not None
    assert finding.source.lines[1] == "    loss = criterion(model(batch), target)"
    script.write_text("def step(batch):\n    pass\n")
    (finding,) = traindbg.diagnose_log(log)
    assert finding.source is None, "the program has been changed since"
