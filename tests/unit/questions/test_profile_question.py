"""A profile of several ranks: who is asked for what, one clock for all, and what becomes of those that do not answer. Nobody is asked for
real; what they answer with was written by torch itself.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from asked_ranks import AskedRanks

from jupyter_traindbg import model
from jupyter_traindbg.attach.base import Link, ask_all
from jupyter_traindbg.errors import DeadlineExceeded, NoTarget, UsageError
from jupyter_traindbg.gather.clocks import ROUNDS, clocks
from jupyter_traindbg.language import text
from jupyter_traindbg.questions import profile

STEP_S = 0.05
FIRST = 40
STACK = [["/job/train.py", 12, "step"], ["/job/train.py", 40, "main"]]
FIELDS = [field for field in model.Step.__dataclass_fields__ if field not in ("loss_last", "loss_kind", "forward_seen")]


def record(step: int, duration_s: float = STEP_S) -> list[Any]:
    known: dict[str, Any] = {"step": step, "time_s": 1e9 + step * STEP_S, "duration_s": duration_s, "micro_batches": 1}
    return [known.get(name, [0.1] if name == "lr" else 0 if name == "rss_bytes" else None) for name in FIELDS]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        torch.ones(8, 8) @ torch.ones(8, 8)
    profiler.export_chrome_trace(str(path))
    return base64.b64encode(zlib.compress(path.read_bytes())).decode()


def answer(trace: str | None, note: str = "") -> dict[str, Any]:
    """As the probe's: steps 41 and 42 were recorded, and took a tenth longer; the first one has the start of the profiler in it."""
    recorded = {"steps": 2 if trace else 0, "first": FIRST, "own": 940, "began_s": 1e9 + 2, "ended_s": 1e9 + 2.11}
    recorded |= {
        "start_s": 0.01,
        "stop_s": 0.02,
        "write_s": 0.005,
        "pid": 1,
        "thread": 1,
        "cuda": False,
        "trace": trace,
        "note": note,
    }
    late = [record(FIRST + 1, STEP_S * 1.1 + 0.01), record(FIRST + 2, STEP_S * 1.1), record(FIRST + 3, 9.9)]
    return {
        "began_s": 1e9 + 1.9,
        "window_s": 2.0,
        "first": 38,
        "stacks": [STACK],
        "looks": [[0.01 * n, 0, 0.01, None, 0.0, None, 38, False] for n in range(200)],
        "fields": FIELDS,
        "records": [*(record(n) for n in range(30, FIRST + 1)), *late, record(FIRST + 4)],
        "recorded": recorded,
    }


class Played(Link):
    """A rank that answers as it is told; its clock is `ahead_s` ahead of ours, and the way to it takes `way_s`."""

    def __init__(
        self, rank: int, says: Mapping[str, Any], *, here: bool = True, ahead_s: float = 0.0, way_s: float = 0.0
    ) -> None:
        super().__init__(4000 + rank, lambda s: None, rank, 2)  # type: ignore[arg-type, return-value]
        self.here, self.says, self.ahead_s, self.way_s = here, says, ahead_s, way_s
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        self.asked.append((method, params))
        time.sleep(self.way_s)
        said = {"time_s": time.time() + self.ahead_s, **pace()} if method == "pace" else self.says.get(method)
        time.sleep(self.way_s)
        if said is None:
            raise DeadlineExceeded(text("{name} took too long", name="it"))
        return said


def pace(step_s: float | None = STEP_S) -> dict[str, Any]:
    marks = [[n, 0, 900 + n, 7 * n] for n in range(FIRST - 5, FIRST + 1)]
    return {
        "step": FIRST,
        "marks": marks,
        "usual_step_s": step_s,
        "mean_step_s": step_s,
        "since_last_step_s": 0.01,
        "directory": "/tmp/x",
    }


class Job(AskedRanks):
    name = "torchrun:1"

    def __init__(self, *links: Played) -> None:
        super().__init__(self._ask, several=len(links) > 1)
        self.links = list(links)

    def open_links(self) -> list[Link]:
        return list(self.links)

    def _ask(
        self, method: str, params: Any, timeout: float, build: Any, of_rank: Mapping[int, Mapping[str, Any]]
    ) -> Any:
        def one(link: Link) -> Any:
            return build(link.rank, link.pid, link.call(method, {**params, **of_rank.get(link.rank, {})}, timeout))

        asked = ask_all(self.links, one, timeout).need_one()
        return tuple(answer for _, answer in asked.answers), asked.silent


def ask(*links: Played, **how: Any) -> model.Profile:
    return profile.ask(Job(*links), **how)


def test_a_step_is_told_without_the_start_of_the_profiler_and_a_usual_one_without_its_end(trace: str) -> None:
    (rank,) = ask(Played(0, {"profile": answer(trace)})).ranks
    assert (rank.steps, rank.first_step) == (2, model.StepNumber(FIRST, 940))
    assert rank.step_s == pytest.approx(STEP_S * 1.1)
    assert (rank.usual_step_s, rank.overhead) == (STEP_S, pytest.approx(1.1))
    assert rank.stood_still_s == pytest.approx(0.035)
    assert {"aten::mm", "aten::matmul"} <= {one.name for one in rank.operators}
    (line,) = rank.lines
    assert (line.frame.line, line.share, line.seconds) == (12, 1.0, pytest.approx(STEP_S * 1.1))
    assert [frame.line for frame in rank.stacks[0].frames] == [12, 40]


def test_ranks_are_to_begin_behind_the_same_step_that_none_has_made(trace: str) -> None:
    links = [Played(rank, {"profile": answer(trace)}) for rank in (0, 1)]
    ask(*links, steps=3)
    behind = {params["after_step"] for link in links for method, params in link.asked if method == "profile"}
    assert len(behind) == 1
    assert behind.pop() > FIRST
    assert {params["steps"] for link in links for method, params in link.asked if method == "profile"} == {3}


def test_who_does_not_answer_is_silent_and_the_others_are_told(trace: str) -> None:
    seen = ask(Played(0, {"profile": answer(trace)}), Played(1, {}))
    assert [rank.rank for rank in seen.ranks] == [0]
    assert [(one.rank, one.reason) for one in seen.silent] == [(1, "it took too long")]
    with pytest.raises(DeadlineExceeded):
        ask(Played(0, {}))


def test_what_cannot_be_read_is_said_and_the_lines_are_there() -> None:
    for written in (b'{"traceEvents": [{"ph": "X"', b"[]", b"{}"):
        (rank,) = ask(Played(0, {"profile": answer(base64.b64encode(zlib.compress(written)).decode())})).ranks
        assert rank.note.startswith("what torch's profiler wrote could not be read"), written
        assert (rank.steps, rank.operators, len(rank.lines)) == (0, (), 1)


def test_to_sample_records_nothing_and_asks_for_no_step() -> None:
    link = Played(0, {"profile": {**answer(None), "recorded": {"steps": 0, "note": ""}}})
    seen = ask(link, sample=True)
    assert [(method, params["steps"]) for method, params in link.asked] == [("profile", 0)]
    assert (seen.recorded, seen.ranks[0].looks) == (False, 200)
    assert seen.undecided is None


def test_what_cannot_be_over_in_time_is_not_begun() -> None:
    link = Played(0, {"profile": answer(None)})
    with pytest.raises(UsageError, match=r"a step takes 50 ms: 100 of them.*are not over in 2 s"):
        ask(link, steps=100, seconds=2.0)
    assert [method for method, _ in link.asked] == ["pace"]


def test_the_trace_is_written_and_one_that_cannot_be_is_said_first(trace: str, tmp_path: Path) -> None:
    link = Played(0, {"profile": answer(trace)})
    with pytest.raises(UsageError, match="no ending"):
        ask(link, trace=str(tmp_path / "run"))
    with pytest.raises(UsageError, match="only what torch's profiler records"):
        ask(link, trace=str(tmp_path / "run.json"), sample=True)
    assert link.asked == []
    seen = ask(link, trace=str(tmp_path / "run.json"))
    assert seen.trace == str(tmp_path / "run.json")
    again = seen.save_trace(str(tmp_path / "again.json"))
    assert json.loads(Path(again).read_text()) == json.loads(Path(seen.trace).read_text())
    assert "_recorded" not in seen.to_dict()
    nothing = ask(Played(0, {"profile": answer(None, "no step came meanwhile")}), trace=str(tmp_path / "none.json"))
    assert (nothing.trace, nothing.undecided) == (
        model.NotAvailable("no step was recorded"),
        "no trace was written: no step was recorded",
    )
    assert not (tmp_path / "none.json").exists()
    with pytest.raises(NoTarget, match="no step was recorded"):
        nothing.save_trace(str(tmp_path / "none.json"))


def test_clocks_of_other_hosts_are_told_by_round_trips_and_what_these_cannot_tell_is_none() -> None:
    here, ahead, same = Played(0, {}), Played(1, {}, here=False, ahead_s=5.0, way_s=0.002), Played(2, {}, here=False)
    same.way_s = 0.002
    told = clocks([here, ahead, same], 10.0)
    assert (told[here].ahead_s, told[here].error_s, here.asked) == (0.0, 0.0, [])
    assert told[ahead].ahead_s == pytest.approx(5.0, abs=told[ahead].error_s)
    assert told[ahead].error_s >= 0.002
    assert told[same].ahead_s == 0.0, "a round trip of 4 ms cannot tell it from ours"
    assert len(same.asked) == ROUNDS


def test_the_first_ranks_clock_is_that_of_all(trace: str) -> None:
    first, second = (Played(n, {"profile": answer(trace)}, here=False, ahead_s=5.0 + n) for n in (0, 1))
    seen = ask(first, second)
    assert [rank.clock_ahead_s for rank in seen.ranks] == [0.0, pytest.approx(1.0, abs=0.2)]
    assert seen.ranks[1].clock_error_s > 0
