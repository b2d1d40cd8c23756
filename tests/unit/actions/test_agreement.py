"""One step for all ranks, or none: against the agents' real part, ranks that step in threads, and everything that can go wrong with one."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from jupyter_traindbg.actions import agreement, ballot
from jupyter_traindbg.actions.agreement import agree
from jupyter_traindbg.agent.actions import vote
from jupyter_traindbg.agent.agreed import Agreed
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.agent.safepoint import NEXT_BATCH, SafePoints
from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import ActionRefused, DeadlineExceeded, GilHeld, StepOver, TraindbgError
from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.model import Rank as RankFound

STEP_S = 0.002


class FakeRecorder:
    step = 0


class FakeRank(Link):
    """A link whose process is a thread here: it steps, and its agent is the real `Agreed`."""

    def __init__(self, rank: int, world_size: int, place: Path, came_after: int = 0) -> None:
        super().__init__(os.getpid(), self._never, rank, world_size)
        self.came_after = came_after
        self.recorder, self.safepoints = FakeRecorder(), SafePoints()
        self.agreed = Agreed(self.safepoints, self.recorder)  # type: ignore[arg-type]
        self.agreed.open()
        self.directory = str(place)
        self.marks: list[list[Any]] = []
        self.done_at: list[tuple[str, int]] = []
        self.asked: list[str] = []
        self.faults: dict[str, Callable[[], None]] = {}
        """What happens when it is asked to: name of the request -> function that may wait or raise."""
        self.answers = True

    @staticmethod
    def _never(deadline_s: float) -> Any:
        raise AssertionError("nothing is entered here")

    def step(self, own: int) -> None:
        """One step, the `own`-th of the program."""
        if own > self.came_after:
            self.recorder.step += 1
            self.marks.append([self.recorder.step, 0, own, own])
            del self.marks[:-256]
            self.safepoints._pass_boundary(NEXT_BATCH)

    def identify(self, deadline_s: float) -> RankFound:
        unknown = NotAvailable("not asked")
        note = "" if self.problem is None else str(self.problem)
        return RankFound(
            self.rank, self.world_size, self.pid, "fake", unknown, unknown, agent=self.problem is None, note=note
        )

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        name = params.get("do", method)
        self.asked.append(name)
        self.params = params
        if name in self.faults:
            self.faults[name]()
        try:
            return getattr(self, f"_{name}")(params)
        except Refused as e:
            raise (StepOver if e.too_late else ActionRefused)(e.cause, e.next_step) from e

    def _pace(self, params: dict[str, Any]) -> dict[str, Any]:
        paces = {"usual_step_s": STEP_S, "mean_step_s": STEP_S, "since_last_step_s": 0.0}
        return {"step": self.recorder.step, "marks": list(self.marks), "directory": self.directory, **paces}

    def _prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        ident, deed = params["ident"], lambda: self.done_at.append((params["ident"], self.recorder.step)) or "value"
        self.agreed.prepare(ident, params["after_step"], params["decision"], deed, exact=True)
        return {"rows": []}

    def _outcome(self, params: dict[str, Any]) -> Any:
        return self.agreed.outcome(params["ident"], params["wait_s"])

    def _abort(self, params: dict[str, Any]) -> dict[str, Any]:
        self.agreed.abort(params["ident"])
        return {}

    def _vote(self, params: dict[str, Any]) -> dict[str, Any]:
        return vote.run(SimpleNamespace(agreed=self.agreed), **params)  # type: ignore[arg-type]

    _claim = _free = _cast = _forget = _vote

    def common(self) -> list[tuple[str, int]]:
        """What it did, after which steps of the program."""
        return [(ident, step + self.came_after) for ident, step in self.done_at]


class Training:
    """Ranks that step together, until it is left."""

    def __init__(self, ranks: list[FakeRank]) -> None:
        self.ranks = ranks
        self.running = threading.Event()
        self.running.set()
        self._over = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        own = 0
        while not self._over:
            if self.running.is_set():
                own += 1
                for rank in self.ranks:
                    rank.step(own)
            time.sleep(STEP_S)

    def __enter__(self) -> Training:
        self._thread.start()
        while not all(len(rank.marks) > 3 for rank in self.ranks):
            time.sleep(STEP_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join(10)


@pytest.fixture
def store() -> Any:
    """A real store, as the ranks of a job have met at one."""
    return dist.TCPStore("127.0.0.1", 0, 1, is_master=True)


@pytest.fixture
def ranks(tmp_path: Path) -> list[FakeRank]:
    """Three ranks whose agents came at different times."""
    return [FakeRank(rank, 3, tmp_path, came_after=7 * rank) for rank in range(3)]


@pytest.fixture(params=["file", "store"])
def training(request: pytest.FixtureRequest, ranks: list[FakeRank], store: Any) -> Iterator[Training]:
    """Ranks that see one file system; and ranks that have only their store in common."""
    if request.param == "store":
        for rank in ranks:
            meet(rank, store)
            rank.here = False
    with Training(ranks) as it:
        yield it


@pytest.fixture
def training_by_file(ranks: list[FakeRank]) -> Iterator[Training]:
    with Training(ranks) as it:
        yield it


def meet(rank: FakeRank, store: Any) -> None:
    rank.agreed.store._store = store.clone()


def links(training: Training) -> list[Link]:
    return list(training.ranks)


def refused(training: Training, timeout: float = 3.0, **options: Any) -> str:
    with pytest.raises(ActionRefused) as error:
        agree(links(training), "tune", {}, timeout, **options)
    assert "\n" not in str(error.value)
    time.sleep(20 * STEP_S)
    assert [rank.done_at for rank in training.ranks] == [[], [], []]
    assert not any(rank.agreed.waiting for rank in training.ranks)
    return str(error.value)


def test_all_do_it_after_the_same_step(training: Training, tmp_path: Path, store: Any) -> None:
    before = store.num_keys()
    agreed = agree(links(training), "tune", {}, 5.0)
    assert agreed.done
    assert [rank.value for rank in agreed.ranks] == ["value"] * 3
    first, *others = [rank.common() for rank in training.ranks]
    assert len(first) == 1
    assert others == [first, first]
    assert [o.at_step for o in agreed.ranks] == [o.after_step for o in agreed.ranks]
    assert list(tmp_path.iterdir()) == [], "the decision's file is gone"
    assert store.num_keys() == before, "the decision's key is gone"


def test_what_one_rank_refuses_is_refused_everywhere(training: Training) -> None:
    def no() -> None:
        raise ActionRefused("the learning rate must not be negative", "give another one")

    training.ranks[2].faults["prepare"] = no
    assert "must not be negative" in refused(training)


def test_a_rank_that_does_not_answer_is_named(training: Training) -> None:
    def silent() -> None:
        raise DeadlineExceeded("process 1 did not answer 'tune' in 3.0 s")

    training.ranks[1].faults["prepare"] = silent
    said = refused(training)
    assert f"rank 1 (pid {os.getpid()}) cannot take part" in said
    assert "nothing was changed on any rank" in said


def test_a_rank_without_an_agent_is_named(training: Training) -> None:
    training.ranks[1].problem = GilHeld("C code in process 1 holds the GIL")
    assert "rank 1" in (said := refused(training))
    assert "holds the GIL" in said
    assert "prepare" not in training.ranks[0].asked


def test_what_the_caller_finds_wrong_is_refused_everywhere(training: Training) -> None:
    def check(prepared: Any) -> None:
        assert len(prepared) == 3
        raise ActionRefused("they would change different things", "")

    assert "different things" in refused(training, check=check)


def test_an_interrupted_coordinator_leaves_nothing_prepared(training: Training) -> None:
    def interrupted(prepared: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agree(links(training), "tune", {}, 5.0, check=interrupted)
    time.sleep(20 * STEP_S)
    assert [rank.done_at for rank in training.ranks] == [[], [], []]
    assert not any(rank.agreed.waiting for rank in training.ranks)


def test_a_rank_that_is_told_too_late_makes_it_try_again_further_ahead(training: Training) -> None:
    slow = training.ranks[2]

    def dawdle() -> None:
        del slow.faults["prepare"]
        while slow.recorder.step <= slow.params["after_step"]:
            time.sleep(STEP_S)

    slow.faults["prepare"] = dawdle
    agreed = agree(links(training), "tune", {}, 10.0)
    assert agreed.attempts == 2
    assert agreed.done
    assert len({tuple(rank.common()) for rank in training.ranks}) == 1
    assert all(len(rank.done_at) == 1 for rank in training.ranks)


def test_one_that_is_always_late_is_given_up(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "margin", lambda paces, prepare_s, attempt: 1)
    training.ranks[2].faults["prepare"] = lambda: time.sleep(0.05)
    assert "step too fast" in refused(training)
    assert training.ranks[0].asked.count("prepare") == 3


def test_a_job_that_stops_stepping_has_it_armed(training: Training) -> None:
    training.ranks[2].faults["prepare"] = training.running.clear
    agreed = agree(links(training), "tune", {}, 1.0)
    assert not agreed.done
    assert [o.done for o in agreed.ranks] == [False] * 3
    training.running.set()
    ends = time.monotonic() + 5
    while not all(rank.done_at for rank in training.ranks) and time.monotonic() < ends:
        time.sleep(STEP_S)
    assert len({tuple(rank.common()) for rank in training.ranks}) == 1
    assert all(rank.done_at for rank in training.ranks)


def test_ranks_that_are_not_among_us_are_named(training: Training) -> None:
    with pytest.raises(ActionRefused, match=r"only ranks 0, 2 of 3: rank 1 would not change"):
        agree([training.ranks[2], training.ranks[0]], "tune", {}, 3.0)


def test_ranks_that_share_no_steps_are_refused_before_anything_is_prepared(training: Training) -> None:
    for rank in training.ranks:
        rank.faults["pace"] = lambda: None
    training.running.clear()
    training.ranks[1].marks = []
    assert "no optimizer step was seen yet on rank 1" in refused(training, 0.4)
    assert all("prepare" not in rank.asked for rank in training.ranks)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last rank is in a container: what it has under that name is another directory."""
    real, other = ballot._open_directory, tmp_path / "other"
    other.mkdir()

    def elsewhere(link: Link, inside: str) -> int:
        return real(link, str(other) if link.rank == 2 else inside)

    monkeypatch.setattr(ballot, "_open_directory", elsewhere)


def test_ranks_that_share_neither_a_file_system_nor_a_store_are_refused(
    training_by_file: Training, apart: None
) -> None:
    said = refused(training_by_file)
    assert "do not share a file system" in said
    assert "no process group" in said


def test_ranks_of_other_containers_agree_at_their_store(training_by_file: Training, apart: None, store: Any) -> None:
    for rank in training_by_file.ranks:
        meet(rank, store)
    assert agree(links(training_by_file), "tune", {}, 5.0).done
    assert len({tuple(rank.common()) for rank in training_by_file.ranks}) == 1


def test_ranks_with_stores_of_their_own_are_refused(training_by_file: Training, apart: None) -> None:
    for rank in training_by_file.ranks:
        rank.agreed.store._store = dist.HashStore()
    assert "rank 1" in (said := refused(training_by_file))
    assert "another store than rank 0" in said


def test_a_decision_whose_answer_is_lost_is_read_through_another_rank(ranks: list[FakeRank], store: Any) -> None:
    def lost() -> None:
        if "prepare" in ranks[0].asked:
            raise DeadlineExceeded("process 1 did not answer 'vote' in 3.0 s")

    for rank in ranks:
        meet(rank, store)
        rank.here = False
    ranks[0].faults["cast"] = lost
    with Training(ranks) as training:
        assert agree(links(training), "tune", {}, 5.0).done
        assert len({tuple(rank.common()) for rank in ranks}) == 1


def test_a_store_that_does_not_answer_any_more_aborts(ranks: list[FakeRank]) -> None:
    """At the boundary, on the training thread: the rank goes on without the change."""
    rank = ranks[0]
    rank.agreed.store._store = NoStore()
    rank.agreed.prepare("it", 5, "store:key", lambda: None)
    for own in range(1, 8):
        rank.step(own)
    assert rank.agreed.outcome("it", 0.0)["aborted"]


class NoStore(dist.Store):
    """Its server is gone."""

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        raise RuntimeError("Connection reset by peer")


def test_two_clients_take_turns(training_by_file: Training, tmp_path: Path) -> None:
    busy = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    assert "another client is changing this job" in refused(training_by_file, 0.3)
    threading.Timer(0.2, os.close, (busy,)).start()
    assert agree(links(training_by_file), "tune", {}, 5.0).done


def test_a_claim_ends_by_itself(ranks: list[FakeRank]) -> None:
    claim = ranks[0].agreed.claim
    assert claim.take("one", 60.0)
    assert not claim.take("other", 60.0)
    claim.free("other")  # which is not its own
    assert not claim.take("other", 60.0)
    claim.free("one")
    assert claim.take("other", 0.2)
    ends = time.monotonic() + 10
    while not claim.take("one", 60.0):
        assert time.monotonic() < ends
    assert not claim.take("other", 60.0)


def test_many_clients_at_once_are_in_one_order_on_all_ranks(training: Training) -> None:
    errors: list[TraindbgError] = []

    def client() -> None:
        try:
            agree(links(training), "tune", {}, 20.0)
        except TraindbgError as e:
            errors.append(e)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    first, *others = [rank.common() for rank in training.ranks]
    assert len(first) == 4
    assert others == [first, first]


def test_a_single_process_needs_no_agreement(tmp_path: Path) -> None:
    alone = FakeRank(0, 1, tmp_path)
    with Training([alone]):
        agreed = agree([alone], "tune", {}, 5.0)
    assert agreed.done
    assert "pace" not in alone.asked
    assert len(alone.done_at) == 1
