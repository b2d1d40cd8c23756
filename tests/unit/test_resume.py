"""Going on from a checkpoint gives the losses of the run that was never interrupted, bit for bit; what does not fit is refused whole.

Loaders with worker processes: tests/integration/test_resume_workers.py.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402
from resumable_jobs import (  # noqa: E402
    LOADERS,
    Job,
    Noisy,
    elsewhere,
    interrupted,
    interrupted_with_a_late_agent,
    resumed_losses,
    seal,
    skipping_indices,
    write,
)
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import jupyter_traindbg  # noqa: E402
from jupyter_traindbg import agent as agent_package  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.errors import BadCheckpoint, UnsafeCheckpoint, UsageError  # noqa: E402


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "agent").mkdir(mode=0o700)
    running = agent_package.start(str(tmp_path / "agent"), keep=True)
    try:
        yield running
        assert running.safepoints.failures == []
    finally:
        running.stop()


@pytest.mark.parametrize("loader", LOADERS)
def test_a_hung_job_goes_on_with_the_very_same_losses(agent: Agent, tmp_path: Path, loader: str) -> None:
    losses = interrupted(agent, Job(loader), tmp_path / "ckpt", hung_at=13)
    agent.stop()
    after, resumed = resumed_losses(tmp_path / "ckpt", Job(loader, seed=9))
    assert after == losses[13:]
    assert resumed.notes == []
    assert resumed.epoch == 1
    assert resumed.step == 13
    assert set(resumed.counters) >= {"resumable_jobs.py:run:epoch", "resumable_jobs.py:run:i"}


@pytest.mark.parametrize("hung_at", [10, 9, 1, 29])
@pytest.mark.parametrize("loader", ["shuffled", "own generator"])
def test_at_either_end_of_an_epoch(agent: Agent, tmp_path: Path, loader: str, hung_at: int) -> None:
    losses = interrupted(agent, Job(loader), tmp_path / "ckpt", hung_at=hung_at)
    agent.stop()
    after, resumed = resumed_losses(tmp_path / "ckpt", Job(loader, seed=9))
    assert after == losses[hung_at:]
    assert resumed.notes == []


@pytest.mark.parametrize("scaler", [False, True])
def test_accumulated_gradients_are_computed_again(agent: Agent, tmp_path: Path, scaler: bool) -> None:
    """Two batches a step: the hang comes in the second one, whose first is taken again."""
    job = Job(accumulate=2, scaler=scaler)
    losses = interrupted(agent, job, tmp_path / "ckpt", hung_at=13)
    agent.stop()
    fresh = Job(accumulate=2, scaler=scaler, seed=9)
    after, resumed = resumed_losses(tmp_path / "ckpt", fresh)
    assert after == losses[12:]
    assert resumed.step == 6
    if scaler:
        assert fresh.scaler.state_dict() == job.scaler.state_dict()


@pytest.mark.parametrize("loader", ["shuffled", "own generator", "distributed", "unbatched", "iterable"])
def test_an_agent_that_came_in_the_middle_of_an_epoch(tmp_path: Path, loader: str) -> None:
    """It reads the order off the running iterator."""
    losses = interrupted_with_a_late_agent(Job(loader), tmp_path)
    after, resumed = resumed_losses(tmp_path / "ckpt", Job(loader, seed=9))
    assert resumed.notes == []
    # A generator of its own goes on by itself: everything else of later epochs is settled by the boundary.
    assert after == losses[7:]


def test_an_agent_that_came_after_the_hang_says_what_is_not_exact(tmp_path: Path) -> None:
    running: list[Agent] = []
    job = Job()

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(job.losses) == 7 and not running:
                (tmp_path / "agent").mkdir(mode=0o700)
                running.append(agent_package.start(str(tmp_path / "agent"), keep=True))
                elsewhere(lambda: write(running[0], job, tmp_path / "ckpt"))
            return x

    job.model.append(Waits())
    try:
        job.run(most=8)
    finally:
        running[0].stop()
    fresh = Job(seed=9)
    resumed = jupyter_traindbg.resume(tmp_path / "ckpt", **fresh.parts())
    assert any("came after the last step" in n for n in resumed.notes)
    assert any("in hand" in n for n in resumed.notes)
    rest = list(resumed.batches(fresh.loader))
    assert len(rest) == 3
    assert torch.equal(fresh.model[0].weight, torch.load(tmp_path / "ckpt" / "model.pt", weights_only=True)["0.weight"])


def test_skipping_indices_loads_nothing(agent: Agent, tmp_path: Path) -> None:
    assert skipping_indices(agent, tmp_path / "ckpt", workers=0) == 12


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a job hung in its 13th step."""
    place = tmp_path_factory.mktemp("saved")
    (place / "agent").mkdir(mode=0o700)
    running = agent_package.start(str(place / "agent"), keep=True)
    try:
        interrupted(running, Job(), place / "ckpt", hung_at=13)
    finally:
        running.stop()
    return place / "ckpt"


def state_of(job: Job) -> list[Any]:
    return [
        [p.tolist() for p in job.model.parameters()],
        len(job.optimizer.state),
        job.scheduler.state_dict(),
        torch.get_rng_state().tolist(),
        random.getstate(),
    ]


def other_model(job: Job) -> None:
    job.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 2))


def deeper_model(job: Job) -> None:
    job.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1), nn.Linear(1, 1))


def other_optimizer(job: Job) -> None:
    job.optimizer = torch.optim.SGD(job.model.parameters(), lr=0.1)


def two_groups(job: Job) -> None:
    weights, biases = ([p for p in job.model.parameters() if (p.dim() > 1) is wide] for wide in (True, False))
    job.optimizer = torch.optim.AdamW([{"params": weights}, {"params": biases}])


def other_scheduler(job: Job) -> None:
    job.scheduler = torch.optim.lr_scheduler.StepLR(job.optimizer, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_model, r"2.weight is 2x8 here and 1x8 there"),
        (deeper_model, r"lacks 3.weight, 3.bias; nothing was loaded"),
        (other_optimizer, "is AdamW, not SGD"),
        (two_groups, r"groups of \[2, 2\] parameters, the checkpoint's of \[4\]"),
        (other_scheduler, "CosineAnnealingLR, not a StepLR"),
    ],
)
def test_what_does_not_fit_changes_nothing(saved: Path, change: Callable[[Job], None], words: str) -> None:
    job = Job(seed=9)
    change(job)
    before = state_of(job)
    with pytest.raises(UsageError, match=words) as caught:
        jupyter_traindbg.resume(saved, **job.parts())
    assert "\n" not in str(caught.value)
    assert state_of(job) == before


def test_more_than_was_saved_is_refused(saved: Path) -> None:
    job = Job(seed=9)
    for more in (
        {"model": [job.model, job.model]},
        {"optimizer": [job.optimizer] * 2},
        {"scaler": torch.amp.GradScaler("cpu")},
    ):
        with pytest.raises(UsageError, match="checkpoint has"):
            jupyter_traindbg.resume(saved, **more)


def test_a_loader_that_was_not_there_is_refused_before_anything_is_loaded(saved: Path) -> None:
    job = Job(seed=9)
    before = state_of(job)
    with pytest.raises(
        UsageError,
        match=r"no position for this loader .*20 batches of 2.* it has Noisy by RandomSampler, 10 batches of 4",
    ):
        jupyter_traindbg.resume(saved, **job.parts(), loader=DataLoader(Noisy(), batch_size=2, shuffle=True))
    assert state_of(job) == before


def test_not_strict_takes_what_has_the_same_name(saved: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1), nn.Linear(1, 1))
    jupyter_traindbg.resume(saved, model=model, strict=False)
    assert torch.equal(model[0].weight, torch.load(saved / "model.pt", weights_only=True)["0.weight"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_names_that_wrappers_add_do_not_matter(saved: Path) -> None:
    model = Job(seed=9).model
    jupyter_traindbg.resume(saved, model=nn.DataParallel(torch.compile(model, backend="eager")))
    assert torch.equal(model[0].weight, torch.load(saved / "model.pt", weights_only=True)["0.weight"])


def test_optimizer_state_goes_by_the_names_of_parameters(saved: Path) -> None:
    """The same parameters in another order: each gets its own state, though two have the same shape as others."""
    job = Job(seed=9)
    named = dict(job.model.named_parameters())
    optimizer = torch.optim.AdamW([named[n] for n in ("2.bias", "0.bias", "2.weight", "0.weight")])
    jupyter_traindbg.resume(saved, model=job.model, optimizer=optimizer)
    saved_state = torch.load(saved / "optimizer.pt", weights_only=True)["state"]
    for number, name in enumerate(("0.weight", "0.bias", "2.weight", "2.bias")):
        assert torch.equal(optimizer.state[named[name]]["exp_avg"], saved_state[number]["exp_avg"])


def copied(saved: Path, to: Path) -> Path:
    to.mkdir()
    for file in saved.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_one_flipped_bit_is_found_before_anything_is_loaded(saved: Path, tmp_path: Path) -> None:
    damaged = copied(saved, tmp_path / "damaged")
    raw = bytearray((damaged / "model.pt").read_bytes())
    raw[len(raw) // 2] ^= 1
    (damaged / "model.pt").write_bytes(raw)
    job = Job(seed=9)
    before = state_of(job)
    with pytest.raises(BadCheckpoint, match=r"not what was written: model.pt \(damaged\)"):
        jupyter_traindbg.resume(damaged, **job.parts())
    assert state_of(job) == before
    (damaged / "model.pt").unlink()
    with pytest.raises(BadCheckpoint, match=r"model\.pt is missing"):
        jupyter_traindbg.resume(damaged, **job.parts(), verify=False)


def test_a_pickle_that_would_run_code_is_not_run(saved: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    evil = copied(saved, tmp_path / "evil")
    torch.save({"0.weight": Evil()}, evil / "model.pt")
    seal(evil)
    with pytest.raises(UnsafeCheckpoint, match=r"model.pt"):
        jupyter_traindbg.resume(evil, **Job(seed=9).parts())
    assert not (tmp_path / "executed").exists()


def test_the_metadata_of_a_sharded_checkpoint_is_not_run_either(saved: Path, tmp_path: Path) -> None:
    """torch unpickles that file without restraint; also what only looks harmless there is refused."""

    class Evil:
        def __init__(self, call: Any, *args: Any) -> None:
            self.call = (call, args)

        def __reduce__(self) -> Any:
            return self.call

    for i, thing in enumerate((Evil(Path.touch, tmp_path / "executed"), Evil(getattr, Path, "cwd"))):
        evil = copied(saved, tmp_path / f"evil{i}")
        (evil / ".metadata").write_bytes(pickle.dumps(thing))
        seal(evil, "sharded")
        with pytest.raises(UnsafeCheckpoint, match=r"\.metadata"):
            jupyter_traindbg.resume(evil, **Job(seed=9).parts())
    assert not (tmp_path / "executed").exists()


def test_what_is_no_checkpoint_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing is at"):
        jupyter_traindbg.resume(tmp_path / "nothing")
    with pytest.raises(UsageError, match="not a checkpoint of traindbg's"):
        jupyter_traindbg.resume(tmp_path)


def test_another_number_of_ranks_is_not_exact_and_says_so(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    resumed = jupyter_traindbg.resume(saved)
    assert any("saved by 1 ranks, resumed by 2" in n for n in resumed.notes)
    assert any("nothing was saved of rank 1" in n for n in resumed.notes)


def test_the_generators_are_set_even_without_a_loader(saved: Path) -> None:
    jupyter_traindbg.resume(saved)
    first = [torch.rand(1).item(), random.random(), float(np.random.rand())]
    jupyter_traindbg.resume(saved)
    assert [torch.rand(1).item(), random.random(), float(np.random.rand())] == first
