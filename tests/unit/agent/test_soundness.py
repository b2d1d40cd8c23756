"""A short look at a training that runs: where its thread is, what is collected, and what its gradient scalers do."""

from __future__ import annotations

import gc
import math
import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_trainings import Job  # noqa: E402

from jupyter_traindbg.agent.collecting import Collections  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.agent.resident import Resident  # noqa: E402
from jupyter_traindbg.agent.sampling import sample  # noqa: E402
from jupyter_traindbg.evidence_soundness import soundness  # noqa: E402
from jupyter_traindbg.model import NotAvailable, Sampled, Soundness  # noqa: E402

WINDOW_S = 0.4
DEADLINE_S = 20.0


def asked(agent: Agent, work: Callable[[], Any], window_s: float = WINDOW_S) -> Soundness:
    """What the probe answers while the main thread does `work` again and again, as a client reads it."""
    answers: list[Any] = []
    client = threading.Thread(target=lambda: answers.append(agent.call("soundness", {"window_s": window_s})))
    client.start()
    ends = time.monotonic() + DEADLINE_S
    while client.is_alive() and time.monotonic() < ends:
        work()
    client.join(DEADLINE_S)
    return soundness(answers[0])


def sampled(seen: Soundness) -> Sampled:
    assert isinstance(seen.sampled, Sampled)
    return seen.sampled


def sleep_in_batch() -> None:
    time.sleep(0.05)


def compute() -> None:
    sum(n * n for n in range(20_000))


@pytest.mark.parametrize("keeps", [True, False])
def test_what_each_step_leaves_behind_is_seen(agent: Agent, keeps: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    kept: list[bytes] = []

    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        kept.append(bytes(20_000 if keeps else 0))
        time.sleep(0.005)

    step()
    seen = asked(agent, step, 1.0)
    assert seen.left_bytes == (pytest.approx(20_000, rel=0.2) if keeps else 0.0)


def test_a_sleep_is_seen_with_its_line_its_call_and_its_time(agent: Agent) -> None:
    seen = sampled(asked(agent, sleep_in_batch))
    asleep = [p for p in seen.places if p.frames[0].function == "sleep_in_batch"]
    assert {p.call for p in asleep} & {"nanosleep", "clock_nanosleep"}
    idle = [p.idle_s for p in asleep if not isinstance(p.idle_s, NotAvailable)]
    assert sum(idle) > 0.5 * seen.wall_s
    assert not asleep[0].frames[0].library


def test_a_thread_that_computes_is_not_idle(agent: Agent) -> None:
    seen = sampled(asked(agent, compute))
    assert seen.looks > 3
    waits = [
        p.idle_s for p in seen.places if p.call in ("nanosleep", "clock_nanosleep") and isinstance(p.idle_s, float)
    ]
    assert sum(waits) < 0.3 * seen.wall_s


def test_a_thread_that_has_ended_ends_the_look() -> None:
    short = threading.Thread(target=time.sleep, args=(0.1,))
    short.start()
    assert short.ident is not None
    seen = sample(short.ident, DEADLINE_S, lambda: True)
    short.join()
    assert seen["wall_s"] < DEADLINE_S / 2


def test_an_agent_that_leaves_ends_the_look() -> None:
    ended, going = threading.Event(), iter([True, True, False])
    waits = threading.Thread(target=ended.wait, args=(DEADLINE_S,))
    waits.start()
    seen = sample(waits.ident or 0, DEADLINE_S, lambda: next(going))
    ended.set()
    waits.join(DEADLINE_S)
    assert seen["looks"] == 2


# --- collections ---------------------------------------------------------------------------------------------------


def collect_in_step() -> None:
    gc.collect()
    time.sleep(0.02)


def test_collections_are_counted_with_their_place(agent: Agent) -> None:
    seen = asked(agent, collect_in_step)
    assert not isinstance(seen.collections, NotAvailable)
    assert seen.collections.count >= 3
    assert 0 < seen.collections.longest_s <= seen.collections.pause_s < seen.window_s
    frames, count = seen.collections.places[0]
    assert frames[0].function == "collect_in_step"
    assert count >= 3


def test_young_generations_do_not_count_and_nothing_is_left_behind() -> None:
    before = list(gc.callbacks)
    with Collections() as collections:
        gc.collect(0)
        gc.collect(1)
    assert collections.count == 0
    assert gc.callbacks == before
    gc.collect()
    assert collections.count == 0


def test_a_collection_that_had_begun_before_we_came_is_left_out() -> None:
    collections = Collections()
    collections._collects("stop", {"generation": 2})
    assert collections.report()["count"] == 0


# --- steps and scalers ---------------------------------------------------------------------------------------------


def training() -> Job:
    return Job(torch.nn.Linear(4, 1))


def test_steps_and_backward_passes_are_counted_over_the_window(agent: Agent) -> None:
    job = training()
    seen = asked(agent, job.step)
    assert seen.steps_in_window > 0
    assert abs(seen.backwards - seen.steps_in_window) <= 1
    assert (seen.scaler_steps, seen.scales) == (0, ())


class Scaled:
    """A training with a gradient scaler whose loss is multiplied by `factor`."""

    def __init__(self, factor: float) -> None:
        self.job, self.factor = Job(torch.nn.Linear(4, 1)), factor
        never = 10**9  # a fast machine makes within the look the 2000 steps after which the scale would double
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=never)

    def step(self) -> None:
        job, scaler = self.job, self.scaler
        job.optimizer.zero_grad()
        loss = job.model(job.batch).square().mean()
        infinite = loss * 0 + job.model.weight.sum() * self.factor
        scaler.scale(loss + (infinite - infinite.detach() if self.factor else 0)).backward()
        scaler.step(job.optimizer)
        scaler.update()


def test_a_scaler_that_skips_every_step_is_counted(agent: Agent) -> None:
    scaled = Scaled(math.inf)
    seen = asked(agent, scaled.step)
    assert seen.scaler_steps == seen.scaler_skipped > 0
    assert seen.skipped_in_a_row >= seen.scaler_skipped
    ((first, last),) = seen.scales
    assert first is None or first > (last or 0.0)
    assert seen.steps_in_window == 0
    assert seen.losses_of_no_step


def test_a_scaler_that_steps_skips_nothing(agent: Agent) -> None:
    scaled = Scaled(0.0)
    scaled.step()
    seen = asked(agent, scaled.step)
    assert seen.scaler_steps > 0
    assert (seen.scaler_skipped, seen.skipped_in_a_row) == (0, 0)
    assert seen.scales[0][1] == 2.0**10
    assert abs(seen.steps_in_window - seen.scaler_steps) <= 1


def test_a_disabled_scaler_is_none(agent: Agent) -> None:
    job = training()
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def step() -> None:
        job.optimizer.zero_grad()
        scaler.scale(job.model(job.batch).mean()).backward()
        scaler.step(job.optimizer)
        scaler.update()

    seen = asked(agent, step)
    assert seen.steps_in_window > 0
    assert (seen.scaler_steps, seen.scales) == (0, ())


def test_what_a_scaler_returns_is_what_it_returned_before(agent: Agent) -> None:
    """Its result is the optimizer's, and None where it skips."""
    job = training()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    job.optimizer.zero_grad()
    scaler.scale(job.model(job.batch).mean()).backward()
    assert scaler.step(job.optimizer) is None
    with pytest.raises(RuntimeError, match="step"):
        scaler.step(job.optimizer)  # its own check still speaks


def test_closing_puts_the_scalers_methods_back(agent: Agent) -> None:
    patched = torch.amp.GradScaler.step
    agent.stop()
    assert torch.amp.GradScaler.step is not patched
    assert torch.amp.GradScaler.step.__name__ == "step"


def test_before_torch_is_hooked_there_is_an_answer_all_the_same() -> None:
    unhooked = Agent("/nonexistent", "test")
    unhooked.alive = True
    seen = asked(unhooked, compute)
    assert seen.steps_in_window == 0
    assert sampled(seen).looks > 0


# --- mapped files --------------------------------------------------------------------------------------------------


def test_pages_of_a_mapped_file_are_told_from_the_rest(tmp_path: Path) -> None:
    size = 32 << 20
    resident = Resident()
    resident.open()
    try:
        kept = bytearray(os.urandom(1 << 20) * 32)
        assert resident.mapped_growth_bytes() < size / 2
        file = tmp_path / "shard.bin"
        file.write_bytes(kept)
        with file.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert sum(mapped[:: mmap.PAGESIZE]) > 0
            assert resident.mapped_growth_bytes() > 0.9 * size
            resident.note_mapped()
            resident.note_mapped()
            assert resident.mapped_growth_bytes() < size / 2, (
                "what was there before the last note but one is not lately"
            )
    finally:
        resident.close()
