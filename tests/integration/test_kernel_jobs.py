"""Attach to a training that runs in a cell of another notebook: everything answers while the cell is busy, and nothing of it changes."""

from __future__ import annotations

import os

import pytest
from kernels import TRAINING, Kernel, ipykernel6_python, kernel  # noqa: F401 - fixtures
from traces import gone

import traindbg


def test_a_training_in_a_busy_cell_answers_everything(kernel: Kernel) -> None:  # noqa: F811
    assert kernel.run(TRAINING).finish()["status"] == "ok"
    undisturbed = kernel.value("torch.manual_seed(1); print(train(600))")
    cell = kernel.run("torch.manual_seed(1); print(train(600))")
    cell.wait_for("training")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        (rank,) = job.ranks
        assert (rank.pid, rank.way) == (kernel.pid, "kernel")
        threads = job.stacks().processes[0].threads
        assert threads[0].training
        assert any(f.function == "train" and not f.library for f in threads[0].frames)
        assert [g.name for g in job.grads().ranks[0].grads] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert job.lr().ranks[0].optimizers[0].scheduler == "StepLR"
        assert job.memory().ranks[0].shares[0].optimizer_bytes > 0
        assert len(job.steps(last=3).ranks[0].steps) == 3
        again = traindbg.attach(kernel.pid)
        assert [r.way for r in again.ranks] == ["found running"]
        again.close()
    assert cell.finish()["status"] == "ok"
    assert cell.text() == undisturbed
    after = gone(kernel.pid)
    assert (after.ours_mapped, after.directory) == ((), False)
    names = kernel.value("import threading; print([t.name for t in threading.enumerate() if 'traindbg' in t.name])")
    assert names == "[]\n"


def test_a_cell_that_has_ended_is_no_stall_and_a_thread_that_trained_is_one(
    kernel: Kernel,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    assert kernel.run(TRAINING).finish()["status"] == "ok"
    cell = kernel.run("_ = train(400)")
    cell.wait_for("training")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        feed = job.feed(rate_hz=5)
        kernel.until(lambda: feed.last_step > 5, "steps", 60)
        assert cell.finish()["status"] == "ok"
        ended = "nothing trains now: the kernel runs no cell"
        kernel.until(lambda: feed.state.words.startswith(ended), "that it is told", 60)
        assert feed.diagnosis is None, "the agent alone could tell"

        button = "lambda: (train(100), time.sleep(6))"
        kernel.value(f"import asyncio; _ = asyncio.get_event_loop().call_later(0.2, {button})")
        kernel.until(lambda: feed.state.code == "training", "steps of what no cell runs", 60)
        kernel.until(lambda: feed.state.code == "stalled", "that it stands still", 60)
        unknown = [step.step for step in job.steps().ranks[0].steps if step.duration_s is None]
        assert len(unknown) == 2, "how long the first took, and the first after the rest"
        kernel.until(lambda: feed.state.words.startswith(ended), "that it has ended", 60)

        kernel.value("import threading; threading.Thread(target=train, args=(100,)).start()")
        kernel.until(lambda: feed.state.code == "training", "its steps, which come although no cell runs", 60)
        kernel.until(lambda: feed.state.code == "stalled", "its end", 60)


def test_a_hung_cell_is_looked_at_from_inside(kernel: Kernel) -> None:  # noqa: F811
    cell = kernel.run(
        "import threading; print('locked', flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()"
    )
    cell.wait_for("locked")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        stacks = job.stacks().processes[0]
        assert stacks.source == "agent"
        main = next(t for t in stacks.threads if t.name == "MainThread")
        assert main.state == "waiting"
    kernel.interrupt()
    assert cell.finish()["status"] == "error"
    assert cell.error() == "KeyboardInterrupt"


def test_a_cell_is_called_by_its_number(kernel: Kernel) -> None:  # noqa: F811
    """As its notebook shows it: in stacks, in sentences, and in the verdict with its lines."""
    define = kernel.run("import threading\nlock = threading.Lock()\ndef step():\n    with lock:\n        pass")
    number = define.finish()["execution_count"]
    kernel.run("lock.acquire()").finish()
    hung = kernel.run("print('locked', flush=True)\nstep()")
    hung.wait_for("locked")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        main = next(t for t in job.stacks().processes[0].threads if t.name == "MainThread")
        own = [f for f in main.frames if not f.library]
        assert [(f.cell, f.line, f.function) for f in own] == [(number, 4, "step"), (number + 2, 2, "<module>")]
        place = f"In [{number}], line 4 step"
        assert f"at {place}" in str(job.stacks())
        found = job.diagnose(timeout=30)
        blamed = next(f for f in found.findings if f.code == "lock_wait")
        assert blamed.where == place
        assert place in blamed.title
        assert blamed.source is not None
        assert (blamed.source.cell, blamed.source.line, blamed.source.lines[3].strip()) == (number, 4, "with lock:")
        assert found.ranks[0].where == place
        assert f"{os.sep}ipykernel_" not in str(found)
    kernel.interrupt()
    assert hung.finish()["status"] == "error"


def test_a_kernel_whose_cell_has_ended_is_not_called_stuck(kernel: Kernel) -> None:  # noqa: F811
    assert kernel.run(TRAINING + "\nprint(train(50))").finish()["status"] == "ok"
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        found = job.diagnose()
    assert (found.state, found.findings) == ("idle", ())
    assert [r.state for r in found.ranks] == ["idle"]
    assert "no cell" in found.ranks[0].doing
