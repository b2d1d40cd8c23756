"""What a line says, and who says it."""

from __future__ import annotations

import hostile
import pytest
from cases import each

from jupyter_traindbg.outside.logs.clocks import Clock
from jupyter_traindbg.outside.logs.lines import LONGEST, clean, is_numbered, pieces

MARCH_4 = 1772582400.0
"""2026-03-04T00:00:00Z."""


@each(
    ("line", "text", "rank", "who"),
    [
        ("step 3 is done", "step 3 is done", None, ""),
        ("[rank3]: ValueError: no", "ValueError: no", 3, "rank 3"),
        ('[rank12]:   File "a.py", line 3', '  File "a.py", line 3', 12, "rank 12"),
        ("[rank2]:[E606 09:09:08.170 ProcessGroup.cpp:27] [PG ID 0 Rank 2] stuck", None, 2, "rank 2"),
        ("[default5]:loss 1", "loss 1", 5, "rank 5"),
        ("[ERROR] 2031-04-08 (PID:129, Device:1, RankID:6) ERR01100 OPS call acl api failed.", None, 6, "rank 6"),
        ("[trainer1]: loss 1", "loss 1", 1, "rank 1"),
        ("[4]: hello", "hello", 4, "rank 4"),
        ("3: Traceback (most recent call last):", "Traceback (most recent call last):", 3, "rank 3"),
        ("Rank 7: RuntimeError: x", "RuntimeError: x", 7, "rank 7"),
        ("[1,6]<stderr>: boom", "boom", 6, "rank 6"),
        ("[1,6]<stdout>:boom", "boom", 6, "rank 6"),
        ("(WorkerDict pid=123, ip=10.0.0.2) boom", "boom", None, "WorkerDict pid 123 on 10.0.0.2"),
        ("\x1b[36m(Actor pid=9)\x1b[0m   boom", "  boom", None, "Actor pid 9"),
        ("[36m(Actor pid=9)[0m boom", "boom", None, "Actor pid 9"),
        ("(raylet, ip=10.0.0.7) A worker died", "A worker died", None, "raylet"),
        ("(autoscaler +9m40s) Tip", "(autoscaler +9m40s) Tip", None, ""),
        ("(pid=77) boom", "boom", None, "worker pid 77"),
        ("(Actor pid=9) [rank1]: boom", "boom", 1, "Actor pid 9"),
        ("trainer-1  | boom", "boom", None, "trainer-1"),
        ("2026-03-04T10:00:00.123456789Z stderr F   boom", "  boom", None, ""),
        ("2026-03-04T10:00:00.1234567Z [rank1]: boom", "boom", 1, "rank 1"),
        ("[pod/job-0/main] boom", "boom", None, "job-0"),
        ("> quoted", "quoted", None, ""),
        ("> > [rank1]: quoted", "quoted", 1, "rank 1"),
        ("# boom", "boom", None, ""),
        ("```text", "", None, ""),
        ("node01:150770:150790 [3] NCCL INFO Bootstrap", "NCCL INFO Bootstrap", None, "node01 pid 150770 GPU 3"),
        ("worker-1: [rank9]: boom", "boom", 9, "worker-1"),
        ("[Rank 5] last enqueued: 10", "[Rank 5] last enqueued: 10", 5, "rank 5"),
        ("Rank 4 is running collective", "Rank 4 is running collective", 4, "rank 4"),
        ('{"log":"[rank1]: boom\\n","stream":"stderr"}', "boom", 1, "rank 1"),
        ("\x1b]0;title\x07text\x1b[K", "text", None, ""),
        (r"\x1b[31mred\x1b[0m", "red", None, ""),
    ],
)
def test_prefixes_are_taken_off_and_understood(line: str, text: str | None, rank: int | None, who: str) -> None:
    said = clean(line)
    assert (said.rank, said.who) == (rank, who)
    if text is not None:
        assert said.text == text


@each(
    "line",
    [
        ">>> print(1)",
        "12: step",
        "[INFO] hello",
        "[0]:",
        "Epoch 1:  4%|# | 43/1216 [00:21<09:52, 1.98it/s]",
        "(see pid= in the manual)",
        "loss | 3.5 | ok",
        "{'loss': 1.5}",
    ],
)
def test_what_only_looks_like_a_prefix_stays(line: str) -> None:
    assert clean(line).text == line


def test_rays_count_of_other_workers_is_taken_off() -> None:
    said = clean("(W pid=1) boom [repeated 7x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0)")
    assert (said.text, said.repeats, said.who) == ("boom", 7, "W pid 1")


def test_a_line_is_cut() -> None:
    assert len(clean("x" * 10 * LONGEST).text) == LONGEST


def test_task_numbers_come_again_and_those_of_a_list_do_not() -> None:
    assert is_numbered([f"{i % 4}: line" for i in range(40)])
    assert not is_numbered([f"{i}: line" for i in range(40)])
    assert clean(" 12: loss 3", numbered=True).rank == 12


def test_a_line_is_taken_apart_at_carriage_returns_and_where_another_rank_broke_in() -> None:
    assert pieces("\r 1%|a\r 2%|b\r") == [" 1%|a", " 2%|b"]
    assert pieces("[rank0]: one[rank1]: two") == ["[rank0]: one", "[rank1]: two"]
    assert pieces("plain") == ["plain"]


@each(
    ("line", "time_s"),
    [
        ("2026-03-04 08:10:57,726 INFO", MARCH_4 + 29457.726),
        ("[2026-03-04 08:10:57] x", MARCH_4 + 29457),
        ("2026-03-04T08:10:57.5Z x", MARCH_4 + 29457.5),
        ("2026-03-04T08:10:57+01:00 x", MARCH_4 + 29457 - 3600),
        ("2026-03-04:08:10:57 INFO", MARCH_4 + 29457),
        ("03/04/2026 08:10:57 - INFO", MARCH_4 + 29457),
        ("26/03/04 08:10:57 INFO", MARCH_4 + 29457),
        ("Mar  4 08:10:57 host kernel: x", MARCH_4 + 29457),
        ("[Wed Mar 4 08:10:57 2026] oom", MARCH_4 + 29457),
        ("I0304 08:10:57.250000 77 a.cc:1] x", MARCH_4 + 29457.25),
        ("[rank2]:[E304 08:10:57.250 P.cpp:1] x", MARCH_4 + 29457.25),
        ("(W pid=1) INFO 03-04 08:10:57 [core.py:1] x", MARCH_4 + 29457),
        ("[08:10:57] x", 29457.0),
        ("08:10:57.5 x", 29457.5),
        ("no time here", None),
        ("10%|# | 1/9 [00:00:21<01:02:03]", None),
        ("2026-13-44 08:10:57 x", None),
        ("99:99:99 x", None),
    ],
)
def test_the_time_of_a_line(line: str, time_s: float | None) -> None:
    assert Clock(2026).read(line) == (None if time_s is None else pytest.approx(time_s))


def test_a_time_of_day_belongs_to_the_day_before_it() -> None:
    clock = Clock(1999)
    clock.read("2026-03-04 08:00:00 x")
    assert clock.read("08:10:57 y") == MARCH_4 + 29457
    assert clock.read("03-05 00:00:01 z") == MARCH_4 + 86401


@pytest.mark.timeout(30)
def test_hostile_lines_are_read_like_others() -> None:
    """What they cost: benchmarks/bounds.py."""
    for line, text in hostile.lines(LONGEST).items():
        assert clean(line).text == text[:LONGEST], line[:20]
        assert pieces(line) == [line], line[:20]
        assert Clock(2026).read(line) is None, line[:20]
