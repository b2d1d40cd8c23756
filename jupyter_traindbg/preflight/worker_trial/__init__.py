"""One worker, started on a Ray cluster before a hundred are: how long each part of its start takes, and what it takes of a machine.

    trial() --broker--> `at_cluster` (imports ray) --Ray--> `inside` (an actor, in a new process)

The worker is killed at the end, in every case; it belongs to the broker, so that it ends with this process whatever happens.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...attach.ray import hosts
from ...errors import TraindbgError
from ...frames.whose import full_place
from ...language import text
from ...model import NotAvailable, RayNode, RayWorkerTrial, TrialStage
from ...outside import procfs
from ...outside.raystate import ClusterAddress

__all__ = ["Wanted", "trial"]

AT_CLUSTER = "jupyter_traindbg.preflight.worker_trial.at_cluster"
STACKS = "jupyter_traindbg.outside.stacks:dump"
STOP_S = 15.0
LOOK_S = 3.0


@dataclass(frozen=True)
class Wanted:
    """Which worker to try, and how."""

    module: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of ``__init__``, by name."""
    method: str | None = None
    """What to call once; None: nothing."""
    method_arguments: Sequence[Any] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    """By Ray's names; empty: what the class declares."""
    working_dir: str | None = None
    """A directory that Ray carries to the node."""
    paths: Sequence[str] = ()
    """Directories to import from, where the node has them."""


def trial(address: ClusterAddress, nodes: Sequence[RayNode], wanted: Wanted, deadline_s: float) -> RayWorkerTrial:
    """Start one worker of `wanted`, time its parts, read its memory, and take it away again.

    As long as the worker takes, at most `deadline_s` and 15 s for taking it away; a stage that is not done by then is told with the line at
    which it stands. What the user's code raises is told in the result. Raises `MissingPiece` without ray, `RayVersion`, and
    `CannotAttach` for what Ray refuses.
    """
    run = _Run(address, nodes, wanted, time.monotonic() + deadline_s)
    try:
        run.through(wanted.resources)
        if run.other_resources:  # the class says itself what it wants: started with that, it is what the run will start
            run.stop()
            run.through(run.other_resources)
    finally:
        run.stop()
    return run.result()


class _Run:
    """A trial on its way."""

    def __init__(self, address: ClusterAddress, nodes: Sequence[RayNode], wanted: Wanted, ends: float) -> None:
        self.address, self.nodes, self.wanted, self.ends = address, nodes, wanted, ends
        self.name = ""
        self.clean = True
        self.other_resources: Mapping[str, float] = {}
        self._begin({})

    def _begin(self, resources: Mapping[str, float]) -> None:
        self.resources = resources
        self.stages: list[TrialStage] = []
        self.here: dict[str, Any] = {}
        self.cost: dict[str, Any] = {}
        self.problem, self.failed_in, self.raised = "", "", False
        self.where: str | None = None

    def through(self, resources: Mapping[str, float]) -> None:
        """All stages, as far as they come."""
        wanted = self.wanted
        self._begin(resources)
        self.other_resources = {}
        self.name = uuid.uuid4().hex
        try:
            self.here = self._ask(
                "start", self._at(), self.name, dict(resources), wanted.working_dir, deadline_s=self._left_s()
            )
        except TraindbgError:
            self.name = ""  # it never began, or the broker is gone, and what was its own with it
            raise
        if not self._done("process", self.here):
            return
        loaded = self._stage("import", "load", wanted.module, wanted.name, list(wanted.paths))
        if loaded is None:
            return
        declared = _by_rays_names(loaded["declared"])
        if not wanted.resources and declared and declared != dict(resources):
            self.other_resources = declared
            return
        made = self._stage("__init__", "make", dict(wanted.arguments))
        if made is not None and wanted.method is not None:
            self._stage(f"{wanted.method}()", "call", wanted.method, list(wanted.method_arguments))
        if not self.failed_in or self.raised:  # a worker that is stuck answers nothing
            self.cost = self._ask("ask", self.name, "cost", deadline_s=min(5.0, self._left_s()))

    def _stage(self, name: str, method: str, *arguments: Any) -> dict[str, Any] | None:
        answer = self._ask("ask", self.name, method, *arguments, deadline_s=self._left_s())
        return answer if self._done(name, answer) else None

    def _done(self, name: str, answer: Mapping[str, Any]) -> bool:
        """Note the stage; False where it is the last."""
        if "took_s" in answer and "cpu_s" in answer:
            self.stages.append(TrialStage(name, answer["took_s"], answer["cpu_s"], answer["rss_bytes"]))
        if answer.get("late"):
            self.failed_in, self.problem = name, self._late(name)
        if "error" in answer:
            self.failed_in, self.raised, self.problem, self.where = name, True, answer["error"], answer["where"]
        return not self.failed_in

    def _late(self, name: str) -> str:
        """Which stage is not done in time, and where it stands."""
        if name == "process":
            return text(
                "Ray has not started it in time: no node has free what it asks for, or its environment is still "
                "being built"
            )
        self.where = self._stands_at()
        return text("not done in time")

    def _stands_at(self) -> str | None:
        """The user's innermost frame, as py-spy on its node sees it."""
        try:
            opened = hosts.open_hosts(self.address, self.nodes)
            try:
                seen = opened.run(self.here["node_id"], STACKS, self.here["pid"], children=False, deadline_s=LOOK_S)
            finally:
                opened.close()
        except TraindbgError:
            return None
        frames = [f for thread in seen[0].threads for f in thread.frames if thread.training and not f.library]
        ours = ("_timed", "make", "load", "call", "once", "<lambda>")
        theirs = [f for f in frames if not (f.file.endswith("worker_trial/inside.py") and f.function in ours)]
        return full_place(theirs[0]) if theirs else None

    def stop(self) -> None:
        """Take the worker away; also one that was asked for and is not there yet."""
        if not self.name:
            return
        name, self.name = self.name, ""
        try:
            self.clean = bool(self._ask("stop", name, deadline_s=STOP_S)) and not self._still_here()
        except TraindbgError:
            self.clean = False

    def _still_here(self) -> bool:
        """Whether its process is left on this machine, where it was one of this machine's."""
        pid, node = self.here.get("pid"), self.here.get("node_id")
        if pid is None or node not in hosts.nodes_here():
            return False
        ends = time.monotonic() + STOP_S
        while (found := procfs.stat(pid)) is not None and found.state not in "ZX":
            if time.monotonic() > ends:
                return True
            time.sleep(0.05)
        return False

    def _ask(self, function: str, *arguments: Any, deadline_s: float) -> Any:
        return hosts.ask(self.address, f"{AT_CLUSTER}:{function}", deadline_s, *arguments, deadline_s=deadline_s + 1)

    def _at(self) -> str:
        return self.address.client or self.address.gcs

    def _left_s(self) -> float:
        return max(0.2, self.ends - time.monotonic())

    def result(self) -> RayWorkerTrial:
        node = next((n for n in self.nodes if n.node_id == self.here.get("node_id")), None)
        gpu = self.cost.get("gpu_bytes")
        return RayWorkerTrial(
            worker=f"{self.wanted.module}:{self.wanted.name}",
            node=(node.name or node.ip) if node is not None else "",
            pid=int(self.here.get("pid", 0)),
            resources=self.resources,
            stages=tuple(self.stages),
            peak_bytes=int(self.cost.get("peak_bytes", 0)),
            own_bytes=int(self.cost.get("own_bytes", 0)),
            threads=int(self.cost.get("threads", 0)),
            gpu_bytes=gpu if isinstance(gpu, int) else NotAvailable(text("it has used no GPU")),
            failed_in=self.failed_in,
            problem=self.problem,
            raised=self.raised,
            where=self.where,
            cleaned=self.clean,
        )


def _by_rays_names(declared: Mapping[str, Any]) -> dict[str, float]:
    """``num_gpus=1`` -> ``GPU: 1.0``."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    found = {names[key]: float(value) for key, value in declared.items() if key in names}
    return {**found, **{str(key): float(value) for key, value in (declared.get("resources") or {}).items()}}
