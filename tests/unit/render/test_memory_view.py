"""What is shown of memory: who has it, whether it grows, and who holds that."""

from __future__ import annotations

import dataclasses

from answers import row
from render_scenes_memory import memory

from jupyter_traindbg import render
from jupyter_traindbg.model import Memory, MemoryLook, NotAvailable


def text(result: Memory, *, full: bool = False) -> str:
    return render.text(result, 160, full=full)


def test_memory_of_one_rank() -> None:
    words = text(memory(1), full=True)
    assert "1.4 GiB, 2 GiB at peak" in words
    assert row(words, "growth") == "growth 1 MiB at each step (over 10 steps)"
    assert "self.losses" in words
    assert "(up to 100,000)" in words
    assert "cuda:0: 6 GiB in use" in words
    assert (
        "parameters 500 MiB   ▓ gradients 500 MiB   ▒ optimizer state 1000 MiB   ░ buffers 1 MiB   · all else 4.05 GiB"
        in words
    )
    assert row(words, "allocated at peak") == "allocated at peak 7 GiB"
    assert "9003" in words


def test_where_the_books_say_that_nothing_grows_the_curve_is_told_too() -> None:
    (rank,) = memory(1).ranks
    flat = MemoryLook(4, 0.0, 0.0, looked=False)
    words = text(Memory((dataclasses.replace(rank, growth="steady over the last 160 steps", look=flat),)), full=True)
    assert row(words, "growth") == "growth steady over the last 160 steps"
    assert row(words, "grows at each step") == "grows at each step nothing (over 4 steps)"


def test_what_grows_and_is_kept_by_nothing_is_not_called_a_growth() -> None:
    (rank,) = memory(1).ranks
    garbage = MemoryLook(40, 1650.0, 0.0, looked=True)
    seen = dataclasses.replace(rank, growth="steady over the last 160 steps", look=garbage)
    words = text(Memory((seen,)), full=True)
    assert row(words, "growth") == "growth steady over the last 160 steps"
    assert row(words, "grows at each step") == "grows at each step nothing that stays (over 40 steps)"
    unknown = dataclasses.replace(seen, look=dataclasses.replace(garbage, note="too many objects"))
    words = text(Memory((unknown,)), full=True)
    assert "1.61 KiB now; what keeps it is not known: too many objects" in row(words, "grows at each step")


def test_memory_without_cuda_says_why() -> None:
    (rank,) = memory(1).ranks
    words = text(Memory((dataclasses.replace(rank, cuda=NotAvailable("this process uses no CUDA device")),)))
    assert "CUDA: not available (this process uses no CUDA device)" in words


def test_memory_of_many_ranks_names_least_and_greatest() -> None:
    words = text(memory(300))
    assert row(words, "resident") == "resident min 1.4 GiB (rank 0) · median 1.55 GiB · max 1.69 GiB (rank 299)"
    assert row(words, "grows at each step") == "grows at each step 1 MiB"
    assert row(words, "rank 299").startswith("rank 299 1299 1.69 GiB 2 GiB 6 GiB")
    assert "... and 290 more ranks" in words
