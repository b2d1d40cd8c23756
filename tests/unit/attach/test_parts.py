"""What a process is of a job of several, and by what name that job can be asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import each
from support import until

from jupyter_traindbg.attach import base, discover, parsed, process
from jupyter_traindbg.attach.base import Entered, Link, Part, introduce, whole_job
from jupyter_traindbg.command_lines import is_rays
from jupyter_traindbg.errors import NoTarget, TargetGone, UnknownTarget
from jupyter_traindbg.job import Job
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.raystate import membership as membership_module
from jupyter_traindbg.outside.raystate.membership import Membership
from jupyter_traindbg.ray import of_process

PID = os.getpid()
DRIVER = Part("ray:01000000@h:1", "driver")


class Client:
    """An agent that answers by a table."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        self.asked.append(method)
        return self.answers[method]

    def close(self) -> None:
        pass


def linked(client: Client, part: Part | None = None, **words: Any) -> Link:
    link = Link(PID, lambda deadline_s: Entered(client, "injected"), started=process.link(PID)._started, **words)  # type: ignore[arg-type]
    link.__dict__["part"] = part  # as if it had been found out
    return link


def steps(*records: Any, backwards: int = 0, optimizers: tuple[str, ...] = ()) -> dict[str, Any]:
    meanwhile = {
        "for_s": 3.0, "backwards": backwards, "loss": None, "scaler_steps": 0, "scaler_skipped": 0, "optimizers": list(optimizers),
        "stepping": None, "evaluations": 0,
    }  # fmt: skip
    return {"fields": [], "records": list(records), "step": 0, "meanwhile": meanwhile, "run_began": 0, "note": ""}


@each(
    "known, part",
    [
        (Membership("h:1", "01000000", driver=True), DRIVER),
        (Membership("h:1", "", driver=False), Part("ray:@h:1", "worker")),
        (None, None),
    ],
)
def test_a_process_of_a_ray_job_is_a_part_of_it(
    monkeypatch: pytest.MonkeyPatch, known: Membership | None, part: Part | None
) -> None:
    monkeypatch.setattr(membership_module, "membership", lambda pid: known)
    assert discover.part_of(PID) == part


def test_a_rank_is_a_part_of_what_its_launcher_started_and_not_of_the_ray_that_loads_its_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership_module, "membership", lambda pid: Membership("h:1", "01000000", driver=True))
    monkeypatch.setattr(discover, "launcher_of", lambda pid: 41)
    assert discover.part_of(PID) == Part("torchrun:41", "rank")
    monkeypatch.setattr(discover, "launcher_of", lambda pid: None)
    monkeypatch.setattr(discover, "rank_of", lambda pid: discover.RankProcess(pid, 1, 4, 1))
    assert discover.part_of(PID) is None


def test_the_whole_job_is_named_where_it_is_known() -> None:
    assert whole_job([linked(Client(), DRIVER)]) == "ray:01000000@h:1"
    assert whole_job([linked(Client())]) == "torchrun:PID"


def test_a_rank_whose_number_nobody_told_is_asked_for_it_once() -> None:
    client = Client(info={"rank": 1, "world_size": 2}, steps=steps())
    link = linked(client, numbered=False)
    assert (link.rank, link.world_size) == (0, 1)
    (rank,) = Job(str(PID), [link]).steps().ranks
    assert (rank.rank, link.world_size) == (1, 2)
    link.call("steps", {}, 1.0)
    assert client.asked == ["info", "steps", "steps"]


def test_one_that_is_known_is_not_asked() -> None:
    client = Client(steps=steps())
    (rank,) = Job(str(PID), [linked(client, rank=3, world_size=4)]).steps().ranks
    assert (rank.rank, client.asked) == (3, ["steps"])


def test_a_driver_that_trains_nothing_names_the_job_that_does() -> None:
    job = Job(str(PID), [linked(Client(steps=steps()), DRIVER)])
    asks: list[Any] = [job.steps, job.grads, job.lr, job.collectives, job.need_training, lambda: job.set_lr(1e-3)]
    asks += [lambda: job.checkpoint("/tmp/never"), lambda: job.checkpoint_plan("/tmp/never")]
    for ask in asks:
        with pytest.raises(NoTarget, match=rf"process {PID} is the driver of a Ray job .*ray:01000000@h:1"):
            ask()


@each("answer", [steps(backwards=3), steps(optimizers=("AdamW",))])
def test_a_driver_that_trains_is_asked_itself(answer: dict[str, Any]) -> None:
    of_process.need_training(linked(Client(steps=answer), DRIVER), DRIVER, 1.0)


INFO = {"rank": 0, "world_size": 1, "python": "3.11", "torch": None, "frameworks": [], "failures": []}


def test_the_driver_of_a_ray_job_is_introduced_as_such_and_the_ranks_of_a_job_are_not_looked_for_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rank,) = Job(str(PID), [linked(Client(info=INFO), DRIVER)]).ranks
    assert rank.note == "the driver of ray:01000000@h:1"
    monkeypatch.setattr(discover, "part_of", lambda pid: pytest.fail("it takes 10 ms a rank"))
    links = [linked(Client(info={**INFO, "rank": n, "world_size": 2})) for n in range(2)]
    for link in links:
        del link.__dict__["part"]
    assert [rank.note for rank in Job("torchrun:41", links).ranks] == ["", ""]


def test_who_is_no_driver_is_not_asked_whether_it_trains() -> None:
    client = Client()
    Job(str(PID), [linked(client, Part("ray:@h:1", "worker"))]).need_training()
    Job(str(PID), [linked(client)]).need_training()
    assert client.asked == []


@each(
    "text, named",
    [
        ("01000000", "ray:01000000"),
        ("10000000", "ray:10000000"),
        ("raysubmit_Ab1", "ray:raysubmit_Ab1"),
        ("0123", "a pid"),
    ],
)
def test_the_name_of_a_ray_job_alone_says_how_it_is_written(text: str, named: str) -> None:
    with pytest.raises(UnknownTarget, match=named):
        parsed(text)


def test_a_process_that_has_ended_is_no_part_of_anything() -> None:
    link = Link(PID, lambda deadline_s: pytest.fail("it was entered"), started=1)
    assert isinstance(link.ended(), TargetGone)
    assert link.part is None
    assert base.Link(PID, lambda deadline_s: pytest.fail("it was entered")).part is None


RAYLET = "/venv/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet"


@each(
    "command, rays",
    [
        ((RAYLET, "--raylet_socket_name=/tmp/ray/s/sockets/raylet"), True),
        (("/venv/bin/python", "-u", "/venv/lib/python3.11/site-packages/ray/autoscaler/_private/monitor.py"), True),
        (("/venv/bin/python", "-m", "ray.util.client.server", "--port=10001"), True),
        (("python", "train.py", "--raylet"), False),
        (("python", "-c", "import ray"), False),
        ((), False),
    ],
)
def test_what_a_cluster_consists_of_is_known_by_its_command(command: tuple[str, ...], rays: bool) -> None:
    assert is_rays(command) is rays


def test_the_cluster_that_a_program_has_started_is_no_child_of_it(tmp_path: Path) -> None:
    raylet = tmp_path / "ray" / "raylet" / "raylet"
    raylet.parent.mkdir(parents=True)
    raylet.write_text("import os; os.read(0, 1)")
    run = {"stdin": subprocess.PIPE}
    with (
        subprocess.Popen([sys.executable, "-I", "-S", str(raylet)], **run) as cluster,  # type: ignore[call-overload]
        subprocess.Popen([sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1)"], **run) as child,  # type: ignore[call-overload]
    ):
        until(lambda: all(procfs.command(p.pid)[1:2] == ("-I",) for p in (cluster, child)), "both are programs")
        link = Link(PID, lambda deadline_s: pytest.fail("it was entered"))
        introduce([link])
        assert cluster.pid in link.others
        assert child.pid not in link.others
        cluster.communicate()
        child.communicate()
