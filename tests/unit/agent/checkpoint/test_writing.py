"""The stages of a checkpoint, and everything that can go wrong between them: the training never notices, nothing half-written stays."""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpointing import Client, Gate, begun
from small_trainings import Training

from jupyter_traindbg.agent.checkpoint import active, arena, writing
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.agent.saying import packed, said
from jupyter_traindbg.checkpoints import manifest as manifests


@pytest.fixture
def training() -> Training:
    made = Training()
    made.step()
    return made


@pytest.fixture
def large() -> Training:
    made = Training(600)  # 4.3 MB with its optimizer's state
    made.step()
    return made


def left(client: Client) -> list[str]:
    """Everything of a checkpoint beside the agent's own directory."""
    return sorted(p.name for p in client.directory.parent.iterdir() if p.name.startswith((".ck", "ck")))


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "traindbg-checkpoint"]


def until(condition: Callable[[], bool], patience_s: float = 10.0) -> None:
    ends = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_a_manifest_that_the_reader_takes(client: Client, training: Training) -> None:
    client.begin()
    taken = client.stage("take", directory=str(client.directory))
    progress = client.written()
    client.commit(progress, exact=True, notes=[packed(said("said by the client"))])
    read = manifests.read(client.directory)
    assert read.sealed
    assert (read.kind, read.world_size, read.ranks, read.step, read.taken) == ("replicated", 1, (0,), 1, "hung")
    assert (read.steps, read.mixed, read.exact) == ({0: 1}, False, True)
    assert "said by the client" in read.notes
    assert read.models[0]["class"] == "torch.nn.modules.linear.Linear"
    assert read.models[0]["parameters"] == 20
    assert set(read.files) == {"model.pt", "optimizer.pt", "training.pt", "rank-0.pt"}
    for name, entry in read.files.items():
        data = (client.directory / name).read_bytes()
        assert (entry.bytes, entry.sha256, entry.rank) == (len(data), hashlib.sha256(data).hexdigest(), 0)
    assert taken["own_steps"] == [1]
    assert left(client) == ["ck"]
    assert not client.agent.checkpoints
    assert progress["written"] == progress["total"] >= read.files["model.pt"].bytes


def test_the_snapshot_is_of_the_boundary_whatever_comes_after(client: Client, training: Training) -> None:
    client.begin()
    client.stage("prepare", directory=str(client.directory), after_step=3)
    for _ in range(2):
        training.step()
    assert not client.stage("outcome", wait_s=0.0)["done"]
    expected = training.model.weight.detach().clone()
    for _ in range(5):
        training.step()
    outcome = client.stage("outcome", wait_s=0.0)
    assert (outcome["done"], outcome["at_step"]) == (True, 3)
    assert outcome["value"]["own_steps"] == [3]
    client.commit(client.written())
    got = torch.load(client.directory / "model.pt", weights_only=True)
    assert torch.equal(got["weight"], expected)
    assert not torch.equal(got["weight"], training.model.weight)


def test_memory_is_kept_for_the_next_one_and_given_back_at_the_end(client: Client, large: Training) -> None:
    client.save(large.step)
    memory = client.agent.checkpoints._arena
    block = memory._block
    assert memory.size > 4_000_000
    client.save(large.step, overwrite=True)
    assert memory._block is block
    client.agent.stop()
    assert memory.size == 0


def test_memory_is_given_back_where_there_is_little(
    client: Client, large: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = 200 << 20
    monkeypatch.setattr(arena, "available_bytes", lambda: available)
    client.save(large.step)
    assert client.agent.checkpoints._arena.size > 0
    available = 1 << 20
    client.save(large.step, overwrite=True)
    assert client.agent.checkpoints._arena.size == 0


def test_too_little_memory_for_a_snapshot_is_refused_with_figures(
    client: Client, large: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena, "available_bytes", lambda: 10 << 20)
    with pytest.raises(Refused, match=r"needs 0\.01 GB of host memory and 0\.01 GB are available"):
        client.save(large.step)
    client.stage("abort")
    assert left(client) == []


def test_a_parameter_that_grows_between_the_two_phases_is_copied_all_the_same(client: Client) -> None:
    training = Training(600)  # no optimizer state yet
    client.begin()
    client.stage("prepare", directory=str(client.directory), after_step=1)
    training.step()
    training.step()
    assert client.stage("outcome", wait_s=1.0)["done"]
    client.commit(client.written())
    state = torch.load(client.directory / "optimizer.pt", weights_only=True)["state"]
    assert state[0]["exp_avg"].shape == (600, 600)


def test_an_existing_directory(client: Client, training: Training) -> None:
    client.save()
    before = manifests.read(client.directory)
    with pytest.raises(Refused, match="exists already"):
        client.begin()
    assert not client.agent.checkpoints
    training.step()
    client.save(overwrite=True)
    assert manifests.read(client.directory).step == before.step + 1  # type: ignore[operator]
    assert left(client) == ["ck"]


def test_a_disk_that_is_full_in_the_middle(client: Client, large: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files stands for it: the error comes from the same call, in the middle of a file."""
    client.save()
    before = manifests.read(client.directory).files
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    client.begin(overwrite=True)
    client.stage("take", directory=str(client.directory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, old[1]))
    try:
        progress = client.written()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert "limit of the process" in progress["error"]
    client.stage("abort")
    assert left(client) == ["ck"]
    assert manifests.read(client.directory).files == before
    large.step()


def test_a_job_that_goes_on_while_it_is_saved_as_hung(
    client: Client, large: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.begin()
    client.stage("take", directory=str(client.directory))
    large.step()
    progress = client.written()
    assert progress["error"] == "the job went on while it was being saved"
    assert left(client) == []
    monkeypatch.setattr(client.agent.boundary, "updating", lambda: True)
    client.stage("abort")
    client.ident = "again"
    with pytest.raises(Refused, match="in the middle of an optimizer step"):
        client.stage("take", directory=str(client.directory))


def test_an_error_at_the_boundary_is_the_checkpoints_and_not_the_trainings(
    client: Client, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.begin()
    client.stage("prepare", directory=str(client.directory), after_step=client.agent.recorder.step)

    def broken(*args: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(writing.Layout, "copy_into", broken)
    training.step()
    with pytest.raises(RuntimeError, match="broken"):
        client.stage("outcome", wait_s=1.0)
    client.stage("abort")
    assert left(client) == []


def test_a_client_that_vanishes(client: Client, large: Training, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(client, gate)
    assert client.agent.needed
    monkeypatch.setattr(writing, "SILENT_S", 0.05)
    time.sleep(0.1)
    gate.open()
    until(lambda: not client.agent.checkpoints)  # the server's own tick
    until(lambda: threads() == [])
    assert left(client) == []
    with pytest.raises(Refused, match="given up"):
        client.stage("progress")


def test_a_stage_that_takes_long_is_no_silence(
    client: Client, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SILENT_S", 0.05)
    monkeypatch.setattr(arena.Arena, "ensure", lambda *args, **kwargs: time.sleep(1.2))  # two ticks of the server
    client.begin()
    client.stage("prepare", directory=str(client.directory), after_step=100)
    assert client.stage("outcome", wait_s=0.0) == {"done": False, "aborted": False, "at_step": None, "value": None}


def test_abort_in_the_middle_and_another_one_at_once(client: Client, large: Training, gate: Gate) -> None:
    begun(client, gate)
    with pytest.raises(Refused, match="another checkpoint"):
        client.begin()
    client.ident = "1"
    gate.open_soon()
    client.stage("abort")
    assert threads() == []
    assert left(client) == []
    client.save()
    assert left(client) == ["ck"]


def test_a_silent_one_makes_way(client: Client, large: Training, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(client, gate)
    monkeypatch.setattr(active, "IDLE_S", 0.0)
    gate.open_soon()
    client.save()
    assert left(client) == ["ck"]


def test_the_agent_stops_in_the_middle(client: Client, large: Training, gate: Gate) -> None:
    begun(client, gate)
    gate.open_soon()
    client.agent.stop()
    assert threads() == []
    assert not client.directory.parent.exists()  # nothing but the agent's own directory had been in it


def test_a_write_that_hangs_in_the_kernel_is_left_behind_with_its_memory(
    client: Client, large: Training, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "JOIN_S", 0.05)
    begun(client, gate)
    memory = client.agent.checkpoints._arena
    client.stage("abort")
    assert client.agent.checkpoints._arena is not memory
    gate.open()
    until(lambda: not threads())
    assert left(client) == []


def test_nothing_of_the_training_is_held_afterwards(client: Client) -> None:
    training = Training()
    training.step()
    client.save()
    client.begin(overwrite=True)
    client.stage("prepare", directory=str(client.directory), after_step=100)
    client.stage("abort")
    held = weakref.ref(training.model)
    del training
    gc.collect()
    assert held() is None


def test_stages_out_of_order_and_names_out_of_the_directory(client: Client, training: Training) -> None:
    with pytest.raises(Refused, match="no stage"):
        client.ask("nonsense")
    with pytest.raises(Refused, match="letters, digits"):
        client.ask("begin", ident="../x", directory=str(client.directory))
    with pytest.raises(Refused, match="knows nothing"):
        client.ask("progress", ident="unknown")
    client.begin()
    with pytest.raises(Refused, match="nothing has been taken"):
        client.stage("write")
    client.stage("take", directory=str(client.directory))
    progress = client.written()
    with pytest.raises(Refused, match="written already"):
        client.stage("write")
    for name, words in (
        ("../agent", "no name of a file"),
        ("missing.pt", "missing.pt is not in .* as this rank sees it"),
    ):
        with pytest.raises(Refused, match=words):
            client.stage("commit", files={**progress["files"], name: {"bytes": 1, "sha256": ""}})
    short = {**progress["files"], "model.pt": {"bytes": 1, "sha256": ""}}
    with pytest.raises(Refused, match="should have 1"):
        client.stage("commit", files=short)
    client.commit(progress)
    assert left(client) == ["ck"]


def test_available_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (arena.available_bytes() or 0) > 0
    for name, content in (
        ("memory.max", "1000\n"),
        ("memory.current", "900\n"),
        ("memory.stat", "anon 5\ninactive_file 300\n"),
    ):
        (tmp_path / name).write_text(content)
    join = os.path.join
    monkeypatch.setattr(
        os.path, "join", lambda first, *rest: join(str(tmp_path) if first == "/sys/fs/cgroup" else first, *rest)
    )
    assert arena._of_container() == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert arena._of_container() is None
