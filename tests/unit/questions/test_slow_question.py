"""One window over all ranks: who is asked for what, and what becomes of those that do not answer. Nobody is asked for real."""

from __future__ import annotations

from typing import Any

import pytest
from hang_evidence import waiting

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import DeadlineExceeded, TraindbgError
from jupyter_traindbg.gather.clocks import Clock
from jupyter_traindbg.gather.slow import Window, one_window
from jupyter_traindbg.language import text
from jupyter_traindbg.model import NotAvailable, RankWindow, Silent, SourceLine
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


NO_PID = 2**22
"""Greater than any that Linux gives."""


class Played(Link):
    """A rank that answers as it is told, and of which nothing is to be seen from outside."""

    def __init__(self, rank: int, says: dict[str, Any]) -> None:
        super().__init__(NO_PID + rank, lambda s: None, rank, 2)  # type: ignore[arg-type, return-value]
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

    def on_each_host(self, look: Any, timeout: float, *args: Any) -> Any:
        return {"": look(self.links, *args)}, ()

    def host_clocks(self, hosts: list[str]) -> dict[str, Clock]:
        return dict.fromkeys(hosts, Clock())


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


def window(rank: int, began_s: float) -> Window:
    waits = RankWindow(rank, 100 + rank, began_s, 1.0, (), (), (), collectives=waiting(rank).collectives)
    line = SourceLine("loss.backward()")
    return Window((waits,), (Silent(rank + 10, 0, "it is stopped", ""),), {f"train.py:{rank + 1}": line})


def issued_s(one: RankWindow) -> list[float]:
    assert not isinstance(one.collectives, NotAvailable)
    return [call.issued_s for call in one.collectives.calls if not isinstance(call.issued_s, NotAvailable)]


def test_the_windows_of_several_hosts_are_one_on_one_clock() -> None:
    ahead, ours = window(1, 1012.5), window(0, 1000.0)
    one = one_window(
        {"a": ahead, "b": ours}, {"a": Clock(12.5, 0.001), "b": Clock()}, [Silent(3, 0, "beta is gone", "")]
    )
    assert [(rank.rank, rank.began_s) for rank in one.ranks] == [(0, 1000.0), (1, 1000.0)]
    assert issued_s(one.ranks[1]) == [at - 12.5 for at in issued_s(ahead.ranks[0])] != []
    assert [silent.rank for silent in one.silent] == [11, 10, 3]
    assert set(one.lines) == {"train.py:1", "train.py:2"}


def test_where_a_host_does_not_tell_its_time_its_calls_are_compared_with_nobodys() -> None:
    (rank,) = one_window({"a": window(1, 1000.0)}, {}).ranks
    assert rank.began_s == 1000.0
    assert isinstance(rank.collectives, NotAvailable)
