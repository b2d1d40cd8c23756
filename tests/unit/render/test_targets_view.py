"""`%targets`: its first line is the answer, its first column is what one types, and every row is readable in whatever width there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from cases import each
from render_scenes import EMPTY, NAMELESS, SPACED, TRAIN, closed, kernel, ranks_of, targets

from jupyter_traindbg import commands, render
from jupyter_traindbg.model import Target, Targets


@pytest.fixture(autouse=True)
def in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_magics", True)
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def text(*seen: Target, width: int = 120, full: bool = False) -> str:
    return render.text(Targets(seen), width, full=full)


def row(words: str, start: str) -> str:
    """The line that begins with `start`, its columns apart by one space."""
    (line,) = [line for line in words.splitlines() if line.startswith(start)]
    return re.sub(r"\s+", " ", line)


# --- the answer -----------------------------------------------------------------------------------------------------


@each(
    ("seen", "answer", "step"),
    [
        (targets(2).targets, "2 jobs can be attached to: torchrun:900 (2 ranks), kernel:train.ipynb; 2 cannot: 77, 78",
         "next: `%attach torchrun:900`"),
        ([TRAIN], "1 job can be attached to: kernel:train.ipynb", "next: `%attach kernel:train.ipynb`"),
        ([SPACED, NAMELESS], "1 job can be attached to: kernel:49993c88; 1 kernel trains nothing: kernel:0a11b2c3",
         "next: `%attach kernel:49993c88`"),
        ([NAMELESS], "no training process is running on this host; 1 kernel trains nothing: kernel:0a11b2c3",
         "Start the job, or name a pid: `%attach PID`"),
        ([closed(77)], "▲ no training job on this host can be attached to; 1 cannot: 77", "`%attach 77` says what would let you in"),
        ([], "no training process is running on this host", "Start the job, or name a pid: `%attach PID`"),
        ([closed(pid) for pid in range(6)], "▲ no training job on this host can be attached to; 6 cannot: 0, 1, 2, 3 and 2 more",
         "`%attach 0` says what would let you in"),
    ],
)  # fmt: skip
def test_the_first_line_answers_and_the_second_says_what_to_do(seen: Sequence[Target], answer: str, step: str) -> None:
    assert text(*seen).splitlines()[:2] == [answer, step]


def test_a_job_with_ranks_on_other_hosts_says_how_many_are_here() -> None:
    launcher, *ranks = ranks_of(900, 4)
    assert "torchrun:900 (2 of 4 ranks)" in text(launcher, *ranks[:2])


def test_a_ray_job_counts_its_processes() -> None:
    cluster = Target("ray:@h:1", 10, "launcher", "a Ray cluster", "ada", 9.0, "torch")
    workers = [
        Target(str(n), n, "process", "ray::Train.run", "ada", 9.0, "torch", part_of="ray:@h:1") for n in (11, 12)
    ]
    words = text(cluster, *workers)
    assert words.startswith("1 job can be attached to: ray:@h:1 (2 processes)\n")
    assert row(words, "└ 11") == "└ 11 – 11 torch 9 s none yet ray::Train.run"


def test_it_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    words = text(*targets(2).targets, NAMELESS, width=200)
    first, second, *_ = words.splitlines()
    assert (
        first
        == "可以附加到 2 个任务：torchrun:900（2 个 rank）、kernel:train.ipynb；2 个无法附加：77、78；1 个内核没有训练：kernel:0a11b2c3"
    )
    assert second == "下一步：`%attach torchrun:900`"
    for label in ("目标", "框架", "已运行", "运行内容", "2 个 rank", "有应答", "尚无", "无法进入"):
        assert label in words


# --- the table ------------------------------------------------------------------------------------------------------


def test_a_row_says_who_where_how_long_whether_it_answers_and_what_it_runs() -> None:
    words = text(*targets(2).targets, SPACED, NAMELESS)
    assert row(words, "torchrun:900").startswith(
        "torchrun:900 2 ranks 900 torch 2 h 15 min – torchrun …/pretrain/train.py "
    )
    assert row(words, "└ 1001") == "└ 1001 1 of 2 1001 torch 2 h 13 min answers"
    assert (
        row(words, "kernel:train.ipynb")
        == "kernel:train.ipynb – 500 torch 5 min 40 s none yet /home/ada/llm/train.ipynb"
    )
    assert row(words, "kernel:49993c88").endswith(" none yet /home/ada/llm/notes/my runs (2).ipynb")
    assert row(words, "kernel:0a11b2c3").endswith(" none yet ipykernel")
    assert row(words, "77") == "77 – 77 –¹ 3 d no way in python …/77/finetune.py --model llama"
    assert "  - 77, 78: process PID belongs to root, you are ada" in words


@each("width", [80, 100])
def test_at_a_narrow_terminal_what_it_runs_stands_below(width: int) -> None:
    words = text(*targets(4).targets, SPACED, width=width)
    lines = words.splitlines()
    assert "left out" not in words
    assert row(words, "torchrun:900") == "torchrun:900 4 ranks 900 torch 2 h 15 min –"
    assert lines[lines.index(next(x for x in lines if x.startswith("torchrun:"))) + 1].startswith("    torchrun ")
    assert "    /home/ada/llm/notes/my runs (2).ipynb" in lines
    assert "    python …/77/finetune.py --model llama" in lines
    assert "…/pretrain/train.py --config configs/" in words


def test_nothing_essential_is_cut_at_80_columns_also_where_names_and_numbers_are_long() -> None:
    long = kernel("11112222-0000", 4194303, "/home/ada/twentysix-characters.ipynb")
    words = text(long, *ranks_of(4190000, 300, first=4191000), closed(4194302), width=80)
    assert row(words, "kernel:").startswith("kernel:twentysix-characters.ipynb – 4194303 5 min 40 s none yet")
    assert row(words, "└") == "└ 4191000 … 4191299 0-299 of 300 – 2 h 13 min answers"
    assert row(words, "4194302") == "4194302 – 4194302 3 d no way in"


def test_a_wide_terminal_is_used() -> None:
    words = text(*targets(2).targets, width=240)
    assert (
        "--rdzv-backend=c10d --max-restarts 3 …/pretrain/train.py --config configs/big.yaml --lr 3e-4 --seed 7" in words
    )


def test_three_hundred_ranks_share_a_row_and_those_that_differ_have_their_own() -> None:
    words = text(*targets(300).targets)
    assert row(words, "└ 1000") == "└ 1000 … 1299 0-299 of 300 – torch 2 h 13 min answers"
    odd = text(*ranks_of(900, 300, silent=range(0, 300, 7)))
    assert row(odd, "└ 1000") == "└ 1000 … 1294 43 of 300 – torch 2 h 13 min none yet ranks 0-294, every 7th (43)"
    assert row(odd, "└ 1001").startswith("└ 1001 … 1299 257 of 300 – torch 2 h 13 min answers ranks 1-6, 8-13, ")
    launched = [
        Target(str(n), n, "rank", f"python t.py --local_rank={n}", "ada", 1.0, "torch", n, 99, part_of="torchrun:9")
        for n in range(99)
    ]
    launcher = Target(
        "torchrun:9", 9, "launcher", "python -m torch.distributed.launch t.py", "ada", 1.0, "torch", None, 99
    )
    assert row(text(launcher, *launched), "└ 0 … 98")


def test_many_that_have_nothing_in_common_are_folded() -> None:
    alone = [Target(str(n), n, "process", f"python t{n}.py", "ada", 1.0, "torch") for n in range(300)]
    assert "... and 260 more targets" in text(*alone)
    assert "python t299.py" in text(*alone, full=True)


# --- in a notebook --------------------------------------------------------------------------------------------------


def test_what_was_shortened_is_whole_on_hover_and_escaped() -> None:
    evil = kernel("8f3a21b0-1234", 1, '/home/"><b>.ipynb')
    html = render.html(Targets((*targets(2).targets, evil)))
    assert f'title="{TRAIN.name}">kernel:train.ipynb</code>' in html
    assert 'title="kernel:8f3a21b0-1234">kernel:8f3a21b0</code>' in html
    assert f'title="{targets(2).targets[0].command}">torchrun …/pretrain/train.py --config configs/big.yaml' in html
    assert 'title="process 77 belongs to root, you are ada">no way in</strong>' in html
    assert "<b>" not in html


def test_a_rank_that_runs_what_its_launcher_says_has_no_second_line_in_a_notebook() -> None:
    assert re.search(r"answers</span></td><td></td></tr>", render.html(targets(2)))


def test_no_targets_at_all_is_a_line_and_no_table() -> None:
    assert "<table" not in render.html(EMPTY["targets"])
