"""torch's profiler for a few steps of a training in this very process: what it records, whom it makes way for, and that it comes out."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from agents import Ask
from support import until
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.profiling import CLAIMED, TAKEN, Profiling

OWN = sys.modules["torch.autograd.profiler"]
SHORT: dict[str, Any] = {"least_s": 0.1, "window_s": 30.0}


class Job:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(4, 8)).sum().backward()
        self.optimizer.step()


@pytest.fixture
def job(agent: Agent) -> Iterator[Job]:
    fork, prepare = os.fork, OWN._prepare_profiler  # type: ignore[attr-defined]
    job = Job()
    job.step()
    yield job
    assert not torch.autograd._profiler_enabled()
    assert not OWN._is_profiler_enabled  # type: ignore[attr-defined]
    assert (os.fork, OWN._prepare_profiler) == (fork, prepare)  # type: ignore[attr-defined]
    assert [hook for hook in agent.safepoints.after if hook.__qualname__.startswith("Profiling")] == []


def events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    told = json.loads(zlib.decompress(base64.b64decode(answer["recorded"]["trace"])))
    return [event for event in told["traceEvents"] if event["ph"] == "X"]


def test_as_many_steps_are_recorded_as_were_asked_for(job: Job, ask_while: Ask) -> None:
    answer = ask_while(job.step, "profile", steps=3, **SHORT)
    recorded = answer["recorded"]
    names = [event["name"] for event in events(answer)]
    assert (recorded["steps"], recorded["note"]) == (3, "")
    assert names.count("Optimizer.zero_grad#AdamW.zero_grad") == 3, "whole steps"
    assert names.count("aten::addmm") == 6
    assert recorded["own"] == recorded["first"], "AdamW counts its steps, and so did the agent"
    assert recorded["thread"] == threading.get_native_id()
    assert recorded["began_s"] < recorded["ended_s"] < time.time()
    assert recorded["pid"] == os.getpid()
    assert answer["looks"], "the thread is looked at meanwhile"
    assert min(recorded[name] for name in ("start_s", "stop_s", "write_s")) > 0


def test_it_begins_behind_the_step_that_all_ranks_begin_behind(job: Job, agent: Agent, ask_while: Ask) -> None:
    after = agent.recorder.step + 20
    recorded = ask_while(job.step, "profile", steps=2, after_step=after, **SHORT)["recorded"]
    assert (recorded["first"], recorded["steps"]) == (after, 2)


def test_without_steps_to_record_torchs_profiler_stays_out(job: Job, ask_while: Ask) -> None:
    answer = ask_while(job.step, "profile", steps=0, least_s=0.2)
    assert answer["recorded"] == {"steps": 0, "note": ""}
    assert answer["looks"]


def test_what_profiles_already_is_left_alone(job: Job, ask_while: Ask) -> None:
    for kind in (torch.profiler.profile, torch.autograd.profiler.profile):
        with kind() as theirs:  # type: ignore[operator]
            recorded = ask_while(job.step, "profile", steps=2, **SHORT)["recorded"]
        assert (recorded["note"], recorded.get("trace")) == (CLAIMED, None), kind
        assert (
            [event.name for event in theirs.function_events] if kind is not torch.profiler.profile else theirs.events()
        )


def test_one_whose_turn_is_coming_is_left_alone(job: Job, ask_while: Ask) -> None:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(schedule=schedule) as theirs:  # it warms up
        answer = ask_while(job.step, "profile", steps=2, **SHORT)
        theirs.step()
        job.step()
    assert answer["recorded"]["note"] == CLAIMED
    assert [event for event in theirs.events() if event.name == "aten::addmm"]


def test_it_makes_way_for_one_that_begins_meanwhile(job: Job, agent: Agent, ask_while: Ask) -> None:
    found: list[int] = []

    def step() -> None:
        job.step()
        if agent.recording and not found:
            job.step()
            with torch.profiler.profile() as theirs:
                job.step()
            found.append(len([event for event in theirs.events() if event.name == "aten::addmm"]))

    recorded = ask_while(step, "profile", steps=1000, **SHORT)["recorded"]
    assert found == [2], "theirs is whole"
    assert recorded["note"] == TAKEN
    assert recorded["steps"] == 1, "what was recorded until then is there"


def test_it_makes_way_for_one_on_another_thread(job: Job, agent: Agent, ask_while: Ask) -> None:
    found: list[int] = []

    def profile() -> None:
        with torch.profiler.profile() as theirs:
            torch.ones(4) + 1
        found.append(len([event for event in theirs.events() if event.name == "aten::add"]))

    other = threading.Thread(target=profile)

    def step() -> None:
        job.step()
        if agent.recording and not other.ident:
            other.start()

    recorded = ask_while(step, "profile", steps=100_000, **SHORT)["recorded"]
    other.join(30)
    assert found == [1]
    assert recorded["note"] == TAKEN


TAKES_OVER = """
import sys, threading, torch
from jupyter_traindbg import agent as package
from jupyter_traindbg.agent import profiling
profiling.MAKE_WAY_S = 0.05
waited, end = [], profiling.Profiling.end
profiling.Profiling.end = lambda self, s: waited.append(s) or end(self, s)
agent = package.start(sys.argv[1], keep=True)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)

def step():
    (weight * 2).sum().backward()
    optimizer.step()

def profile():
    with torch.profiler.profile() as theirs:
        torch.ones(4) + 1
    print("theirs", sum(event.name == "aten::add" for event in theirs.events()))

ours = agent.profiling = profiling.Profiling(agent, 1000)
with agent.safepoints.meanwhile(ours.begin, lambda: True):
    step()
other = threading.Thread(target=profile)
other.start()
other.join()
step()
print("waited", waited)
print("ours", ours.on, ours.steps, ours.write("/nowhere"), ours.note == profiling.TAKEN)

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096

for _ in range(3000):
    step()
before = resident()
for _ in range(3000):
    step()
print("grows", resident() - before > 3e6)
agent.stop()
print("goes on")
"""


def test_one_that_cannot_wait_for_a_step_takes_over_and_nothing_crashes(tmp_path: Path) -> None:
    """In a process of its own, since torch ends it where somebody asks a profiler that has lost its session."""
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", TAKES_OVER, str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == [
        "theirs 1",
        "waited [0.05]",
        "ours False 0 False True",
        "grows False",
        "goes on",
    ], done


def begun(agent: Agent, job: Job) -> Profiling:
    """One that goes on for ever, as far as the training knows."""
    agent.profiling = profiling = Profiling(agent, 1000)
    with agent.safepoints.meanwhile(profiling.begin, lambda: True):
        job.step()
    assert profiling.on
    return profiling


def test_steps_that_are_not_over_in_time_are_said_and_it_comes_out_behind_them(job: Job, agent: Agent) -> None:
    told: list[dict[str, Any]] = []
    asking = threading.Thread(
        target=lambda: told.append(agent.call("profile", {"steps": 2, "least_s": 0.1, "window_s": 0.5}))
    )
    asking.start()
    while not agent.recording and asking.is_alive():
        job.step()
    asking.join(30)  # the step under way takes longer than anybody waits
    assert "not over in time" in told[0]["recorded"]["note"]
    assert told[0]["recorded"]["trace"] is None
    assert agent.recording
    assert agent.needed, "it stays until that is out"
    job.step()
    assert not agent.recording
    assert agent.profiling is None, "what it recorded is gone"


def test_an_agent_that_is_to_leave_ends_it_first(job: Job, agent: Agent) -> None:
    profiling = begun(agent, job)
    agent.stop()
    assert profiling.over.is_set(), "this is the training thread"


def test_an_agent_does_not_leave_in_the_middle_of_a_recorded_step(
    job: Job, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_traindbg.agent.core.STEP_ENDS_S", 0.05)
    begun(agent, job)
    left: list[bool] = []
    leaving = threading.Thread(target=lambda: left.append(agent.leave(0, force=True)))
    leaving.start()
    leaving.join(30)
    assert (left, agent.alive) == ([False], True)
    job.step()
    assert agent.leave(0, force=True)


def test_a_forked_child_records_nothing(job: Job, agent: Agent) -> None:
    profiling = begun(agent, job)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # whatever happens, this process ends here
        try:
            run_operators()  # what is touched for the first time has to be copied
            before = resident_bytes()
            run_operators()
            os.write(write, str(resident_bytes() - before).encode())
        finally:
            os._exit(0)
    os.close(write)
    until(lambda: os.waitpid(child, os.WNOHANG)[0] == child, "the child did not end")
    with os.fdopen(read) as told:
        assert int(told.read()) < 3e6, "recorded, these operators take 15 MB"
    job.step()
    profiling.end(0.0)
    assert profiling.steps >= 1, "the parent's goes on"


def run_operators() -> None:
    for _ in range(20_000):
        torch.ones(1).view(1)


def resident_bytes() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_losses_are_the_same_to_the_last_bit(ask_while: Ask, agent: Agent) -> None:
    def losses(ask: bool) -> list[str]:
        torch.manual_seed(7)
        job = Job()
        seen: list[str] = []

        def step() -> None:
            job.optimizer.zero_grad()
            loss = nn.functional.dropout(job.model(torch.rand(4, 8)), 0.1).square().sum()
            loss.backward()
            job.optimizer.step()
            seen.append(loss.item().hex())

        if ask:
            answer = ask_while(step, "profile", steps=4, least_s=0.05, window_s=30.0)
            assert answer["recorded"]["steps"] == 4
        while len(seen) < 200:
            step()
        return seen[:200]

    assert losses(True) == losses(False)


def test_a_process_without_torch_says_so(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.safepoints, "active", False)
    began = time.monotonic()
    answer = agent.call("profile", {"steps": 5, "least_s": 0.1, "window_s": 600.0})
    assert answer["recorded"]["note"] == "torch has not been imported in this process"
    assert time.monotonic() - began < 300, "it does not wait for steps that cannot come"
