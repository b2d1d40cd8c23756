"""%steps --rank: one rank of several, and what is refused. The job is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from cases import each
from render_scenes import silent, steps

from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.magics import base
from jupyter_traindbg.model import Result, Steps


class Job:
    """A session whose job has these steps, and notes what it was asked."""

    current = None
    named: str | None = None

    def __init__(self, of: Steps) -> None:
        self.of = of
        self.asked: dict[str, Any] = {}

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Any]:
        self.named = target
        yield self

    def steps(self, **asked: Any) -> Steps:
        self.asked = asked
        return self.of


def run(words: str, job: Job) -> Result:
    args = base.parser("steps").parse_args(base.split(words))
    return base.run("steps", args, job)  # type: ignore[arg-type]


@each(("words", "since", "last"), [("", 0, 20), ("--rank 3 --last 0", 0, 0), ("4711 --rank 3 --since 7", 7, 20)])
def test_what_the_job_is_asked(words: str, since: int, last: int) -> None:
    job = Job(steps(4, 3))
    run(words, job)
    assert (job.asked["since"], job.asked["last"], job.asked["this_run"]) == (since, last, "--since" not in words)


def test_one_rank_is_shown_in_full() -> None:
    job = Job(Steps(steps(8, 12).ranks, silent([9])))
    assert run("", job) is job.of
    one = run("--rank 3", job)
    assert isinstance(one, Steps)
    assert ([rank.rank for rank in one.ranks], one.silent) == ([3], ())
    shown = str(one)
    assert "Latest steps, newest first" in shown
    assert "where the time of a step goes" in shown
    assert "Latest steps" not in str(job.of)


def test_a_rank_that_gave_no_answer_says_why() -> None:
    one = run("--rank 9", Job(Steps(steps(8, 3).ranks, silent([9, 10]))))
    assert isinstance(one, Steps)
    assert ([s.rank for s in one.silent], one.ranks) == ([9], ())
    assert "did not answer" in str(one)


@each(
    ("ranks", "asked", "said"),
    [
        (300, 300, "there is no rank 300; the job has ranks 0-299 (300); `traindbg steps` shows all of them"),
        (1, 1, "there is no rank 1; the job has rank 0; `traindbg steps` shows all of them"),
    ],
)
def test_a_rank_that_there_is_not_is_refused_in_one_line(ranks: int, asked: int, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(f"--rank {asked}", Job(steps(ranks, 2)))
    assert str(refused.value) == said
