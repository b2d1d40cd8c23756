"""The picture of a log: lanes, marks, the flag at the cause, the curve, what it says in words, and that nothing overlaps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases import each
from figure_texts import labelled, overlaps, written
from render_scenes_logs import healthy_log, log_diagnosis

from jupyter_traindbg.model import LogDiagnosis, Picture
from jupyter_traindbg.pictures import of_result
from jupyter_traindbg.questions.jobless import log as log_question

OOM = (
    'Traceback (most recent call last):\n  File "/home/u/train.py", line 41, in step\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 31.74 GiB of which 1.25 GiB "
    "is free. Of the allocated memory 29.10 GiB is allocated by PyTorch, and 310.00 MiB is reserved by PyTorch but unallocated.\n"
)
CLOSED = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:2311\n"
)
TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
    "ran for 600000 milliseconds before timing out."
)


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def steps(first: int, last: int, *, broken: int | None = None, prefix: str = "") -> str:
    """The lines of steps, whose loss is NaN from step `broken` on."""
    dice = random.Random(first)
    return "".join(
        f"{prefix}2026-03-04 10:{n // 60 % 60:02d}:{n % 60:02d} INFO step {n} loss: "
        f"{'nan' if broken is not None and n >= broken else f'{9 / (1 + n / 50) + dice.random() / 20:.4f}'} lr: 3e-4\n"
        for n in range(first, last)
    )


def crashed(ranks: int = 3, guilty: int = 2) -> LogDiagnosis:
    """torchrun's log, with the ranks' names before their lines: rank `guilty` fails, the others lose their connection."""
    text = "W0304 10:00:00.000000 140 torch/distributed/run.py:792] *****************************************\n"
    for n in range(30):
        text += "".join(steps(n, n + 1, prefix=f"[default{rank}]:") for rank in range(ranks))
    text += prefixed(f"[default{guilty}]:[rank{guilty}]: ", OOM)
    for rank in range(ranks):
        if rank != guilty:
            text += prefixed(f"[default{rank}]:[rank{rank}]: ", CLOSED)
    return log_question.of_text(text)


def many_files(tmp_path: Path, ranks: int = 16, guilty: int = 11) -> LogDiagnosis:
    for rank in range(ranks):
        end = (
            "2026-03-04 10:02:10 ERROR failed\n" + OOM
            if rank == guilty
            else f"2026-03-04 10:12:{rank:02d} [rank{rank}] {TIMEOUT}\n"
        )
        (tmp_path / f"rank_{rank}.log").write_text(steps(0, 120) + end)
    return log_question.ask(str(tmp_path), timeout=30)


def drawn(result: LogDiagnosis) -> Picture:
    picture = of_result(result)
    assert overlaps(picture.figure) == []
    assert len(picture.drawn.svg("x")) < 100_000
    return picture


def lanes(picture: Picture) -> list[str]:
    axes = next(axes for axes in picture.figure.axes if axes.get_xlabel())
    return [label.get_text() for label in axes.get_yticklabels()]


# --- what is drawn


def test_a_rank_that_fails_and_the_others_that_lose_it() -> None:
    result = crashed()
    picture = drawn(result)
    assert lanes(picture) == ["launcher", "rank 0", "rank 1", "rank 2"]
    assert labelled(picture.figure, "cause")[0] == (95.0, 3.0)
    assert (96.0, 1.0) in labelled(picture.figure, "consequence")
    texts = written(picture.figure)
    assert "the cause: line 95" in texts
    assert any(text.startswith("line 95 · rank 2 · ") for text in texts)
    assert {"lines written", "exceptions", "the cause", "a consequence"} <= set(texts)
    assert picture.words[0].endswith(": line 95")


def test_consequences_have_another_symbol_than_the_cause() -> None:
    axes = drawn(crashed()).figure.axes
    markers = {line.get_label(): line.get_marker() for one in axes for line in one.lines}
    assert markers["cause"] != markers["consequence"]
    assert markers["exceptions"] not in (markers["cause"], markers["consequence"])


def test_the_flag_stands_where_the_cause_is() -> None:
    [(x, _), (same, lane)] = labelled(drawn(crashed()).figure, "flag")
    assert x == same == 95.0
    assert lane == 3.0


def test_a_log_of_six_lines() -> None:
    picture = drawn(log_question.of_text("epoch 1 begins\n" + OOM))
    assert lanes(picture) == ["all lines"]
    assert "the cause: line 5" in written(picture.figure)


def test_numbers_that_are_near_each_other_stand_side_by_side() -> None:
    """All that matters is in the last of a hundred thousand lines, of one writer."""
    text = (
        "".join(f"answered part {n}\n" for n in range(100_000))
        + CLOSED
        + OOM
        + "ray.exceptions.RayActorError: The actor died\n"
    )
    result = log_question.of_text(text)
    assert result.course is not None
    assert not result.course.whole
    picture = drawn(result)
    assert "lines that were kept" in written(picture.figure)
    assert "how densely the others were written is not known" in picture.words[1]


def test_a_loss_that_becomes_nan() -> None:
    result = log_question.of_text(steps(0, 300, broken=200))
    picture = drawn(result)
    assert picture.words[0].startswith("loss is nan from line 201 on")
    assert "the cause: line 201" in written(picture.figure), "where it began, and not where it was printed last"
    broken = labelled(picture.figure, "not finite")
    assert broken[0][0] == 201
    assert broken[-1][0] == 300
    assert picture.sketches[0].label == "loss"


@each(("last", "scale"), [(10, "linear"), (2000, "log")])
def test_a_loss_that_falls_far_is_on_a_logarithmic_scale(last: int, scale: str) -> None:
    axes = drawn(log_question.of_text(steps(0, last))).figure.axes[0]
    assert axes.get_yscale() == scale
    assert not any("$" in label.get_text() for label in axes.get_yticklabels())


def test_stages_are_a_band() -> None:
    text = "Loading dataset openwebtext\n" + steps(0, 50) + "Saving checkpoint to a\n" + steps(50, 100)
    picture = drawn(log_question.of_text(text))
    assert {"data", "save"} <= set(written(picture.figure))
    assert any(line.startswith("stages: ") for line in picture.details)


def test_forty_writers_have_thirteen_lanes() -> None:
    text = "".join(
        prefixed(f"(WorkerDict pid={4000 + n % 40}, ip=10.0.0.{n % 5}) ", steps(n, n + 1)) for n in range(2000)
    ) + prefixed("(WorkerDict pid=4017, ip=10.0.0.2) ", OOM)
    picture = drawn(log_question.of_text(text))
    assert len(lanes(picture)) == 13
    assert lanes(picture)[-1] == "28 others"
    assert "WorkerDict pid 4017 on 10.0.0.2" in lanes(picture)


def test_files_of_ranks_go_by_the_clock(tmp_path: Path) -> None:
    result = many_files(tmp_path)
    assert result.course is not None
    assert result.course.by_clock
    picture = drawn(result)
    assert "rank 11" in lanes(picture)
    assert lanes(picture)[-1] == "4 others"
    texts = written(picture.figure)
    assert "minutes since 2026-03-04 10:00:00" in texts
    assert any(text.startswith("the cause: line ") and text.endswith("of rank_11.log") for text in texts)


def test_a_name_that_is_too_long_loses_its_middle() -> None:
    name = "Collector" + "x" * 60 + "End"
    picture = drawn(log_question.of_text("".join(f"({name} pid={n}) line\n(Other pid={n}) line\n" for n in (7, 8))))
    assert any(lane.startswith("Collector") and "…" in lane and lane.endswith(" pid 7") for lane in lanes(picture))


# --- words


def test_nothing_wrong() -> None:
    picture = drawn(log_question.of_text(steps(0, 60) + "done\n"))
    assert list(picture.words) == ["nothing wrong found in 61 lines"]
    assert not any(text.startswith("the cause") for text in written(picture.figure))


@each("result", [healthy_log(), log_diagnosis(2)])
def test_a_verdict_without_its_course_is_told_all_the_same(result: LogDiagnosis) -> None:
    picture = drawn(result)
    assert len(picture.words) == 1
    assert "no line of the log was kept" in written(picture.figure)


def test_the_course_is_no_part_of_the_data() -> None:
    assert not any("course" in key for key in crashed().to_dict())


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    picture = of_result(crashed())
    assert picture.words[0].endswith("：第 95 行")
    assert any(line.startswith("启动器：1 行") for line in picture.details)
    assert of_result(log_question.of_text(steps(0, 60))).words[0] == "60 行中未发现问题"
