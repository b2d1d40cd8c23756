"""One window over all ranks: who is asked for what, and what becomes of those that do not answer. Nobody is asked for real."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import DeadlineExceeded, TraindbgError
from jupyter_traindbg.language import text
from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.questions import slow

LATE = DeadlineExceeded(text("{name} took too long", name="it"))
FIELDS = [
    "step",
    "time_s",
    "duration_s",
    "optimizer",
    "optimizer_step",
    "loss",
    "micro_batches",
    "lr",
    "grad_norm",
    "rss_bytes",
]
FIELDS += ["cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes"]
LOADER = "/env/site-packages/torch/utils/data/dataloader.py"
PARTS = ["data_wait_s", "forward_s", "backward_s", "optimizer_s", "other_s"]


def record(step: int) -> list[Any]:
    return [step, 1e9 + step, 0.05, 0, step, 1.0, 1, [0.1], None, 1, None, None, None, 0.04, 0.004, 0.004, 0.001, 0.001]


def answer(steps: int) -> dict[str, Any]:
    """As the probe's: a rank that waits for its data. It has made 7 steps before."""
    looks = [[0.01 * n, 0, 0.01, None, 0.0, None, 7 + n // 5, False] for n in range(5 * steps)]
    return {
        "began_s": 1e9,
        "window_s": 0.05 * steps,
        "first": 7,
        "stacks": [[[LOADER, 700, "_BaseDataLoaderIter.__next__"], ["/job/train.py", 12, "main"]]],
        "looks": looks,
        "fields": [*FIELDS, *PARTS],
        "records": [record(8 + n) for n in range(steps)],
        "collections": {"count": 0, "asked": 0, "pause_s": 0.0, "longest_s": 0.0, "pauses": [], "places": []},
        "batches": [
            {"loader": 0, "step": 8, "batch": 1, "samples": 4, "elements": 32, "tensors": [["0", [4, 8], "float32"]]}
        ],
        "loaders": [],
        "compiled": {"graphs": 0, "before": 0, "breaks": []},
        "host": {"threads": 1, "cpus": 2.0, "cuda": False, "name": "h", "throttled_s": 0.0},
    }


class Played(Link):
    """A rank on another host, which answers as it is told."""

    here = False

    def __init__(self, rank: int, says: dict[str, Any]) -> None:
        super().__init__(4000 + rank, lambda s: None, rank, 2)  # type: ignore[arg-type, return-value]
        self.says, self.asked = says, dict[str, dict[str, Any]]()

    def enter(self, deadline_s: float) -> Any:
        return None

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        self.asked[method] = params
        said = self.says.get(method, LATE)
        if isinstance(said, BaseException):
            raise said
        return said


class Job:
    name = "torchrun:1"

    def __init__(self, *links: Link) -> None:
        self.links = list(links)

    def need_training(self, timeout: float) -> None:
        assert timeout > 0

    def open_links(self) -> list[Link]:
        return self.links


def test_a_rank_that_does_not_answer_is_silent_and_the_others_are_judged() -> None:
    there, gone = Played(0, {"slow": answer(10)}), Played(1, {})
    seen = slow.ask(Job(there, gone), steps=5)  # type: ignore[arg-type]
    (rank,) = seen.ranks
    assert (rank.rank, rank.steps, rank.step_s) == (0, 10, pytest.approx(0.05))
    assert rank.data_s == pytest.approx(0.04)
    assert [(one.rank, one.reason) for one in seen.silent] == [(1, LATE.cause)]
    assert [finding.code for finding in seen.findings] == ["data_wait"]
    assert there.asked["slow"]["steps"] == 5


def test_where_nobody_answers_it_says_why() -> None:
    with pytest.raises(TraindbgError, match="took too long"):
        slow.ask(Job(Played(0, {})))  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "timeout", "window_s"), [(1.0, 10.0, 1.0), (60.0, 10.0, 6.0), (60.0, None, 60.0)])
def test_the_window_leaves_time_for_what_follows(seconds: float, timeout: float | None, window_s: float) -> None:
    link = Played(0, {"slow": answer(10)})
    slow.ask(Job(link), seconds=seconds, timeout=timeout)  # type: ignore[arg-type]
    asked = link.asked["slow"]
    assert asked["window_s"] == pytest.approx(window_s, rel=0.1)
    assert asked["least_s"] <= asked["window_s"]


def test_the_window_that_is_asked_for_fits_unless_less_time_is_given() -> None:
    link = Played(0, {"slow": answer(10)})
    slow.ask(Job(link))  # type: ignore[arg-type]
    assert link.asked["slow"]["window_s"] == slow.SECONDS


def test_what_is_on_another_host_is_not_looked_at_from_here() -> None:
    windows = slow.gathering.gather(
        [Played(0, {"slow": answer(10)})], slow.gathering.Asked(5, 1.0, float("1e12")), threading.Event()
    ).ranks
    (window,) = windows
    assert isinstance(window.activity, NotAvailable)
    assert isinstance(window.workers, NotAvailable)
    assert isinstance(window.collectives, NotAvailable), "it did not answer that"
