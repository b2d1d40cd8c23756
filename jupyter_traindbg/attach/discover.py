"""What can be attached to on this host: one look at /proc, no help from the processes themselves.

A process counts as training-like if it has a deep learning library loaded, is a launcher of ranks, is a Jupyter
kernel, or has an agent. Launchers are known by what they run (``torchrun``, ``accelerate launch`` ...); a process that
started ranks with ``multiprocessing`` is one too. A rank is the topmost process below its launcher with ``RANK`` in
its environment: DataLoader workers and other children inherit that, and are no ranks. One of several tasks of an ``srun``
is a rank, too.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..agent import rendezvous
from ..command_lines import connection_file, is_helper, is_launcher, is_of_a_fork_server, kernel_name, written
from ..errors import TraindbgError
from ..language import text
from ..model import Maybe, NotAvailable, Target, TargetName
from ..notebook import VARIABLE
from ..outside import procfs
from ..outside.procfs import Process
from . import foreign
from .base import Part
from .client import meeting_place
from .notebooks import Kernel, notebooks
from .told_ranks import RankProcess, rank_told, task_told

__all__ = ["RankProcess", "launcher_of", "launcher_ranks", "part_of", "rank_of", "sweep", "targets"]

_FRAMEWORKS = {"torch": (b"libtorch",), "jax": (b"libjax", b"xla_extension"), "tensorflow": (b"libtensorflow",)}

_RANK_NAMES = ("python", "pt_main_thread")

_CONNECT_S = 0.2
_YOUNG_S = 60
_ANCESTORS = 8


def targets() -> list[Target]:
    """The training-like processes of this host: Ray clusters with their workers, launchers with their ranks, kernels, others; then what
    looks like a training of another user.

    A process with an answering agent and a kernel can be attached to whatever ptrace allows; for the rest ``why_not``
    says what is in the way. Left out: DataLoader workers, helpers of multiprocessing and of the compiler, what has ended, and this
    process. Removes what dead agents left behind. About 0.1 ms a process, 1 ms for each that has torch loaded; see `notebooks` for those
    of kernels.
    """
    from .ray import discover as ray

    sweep()
    survey = _Survey()
    return ray.gathered(survey.targets(), survey.table, ray.raylets(survey.table))


def launcher_ranks(pid: int) -> list[RankProcess]:
    """The ranks below the launcher `pid`, in order; empty where it is itself a rank, a plain process, or gone. Cost as
    `targets`.
    """
    return _Survey(only_below=pid).ranks_of(pid)


def rank_of(pid: int) -> RankProcess | None:
    """Which rank of its job process `pid` is, as its environment or what started it says; None where it is a job by itself.

    0.1 ms, or a few where it was started by a Python program that may be the launcher.
    """
    if pid in procfs.uninterruptible([pid]):
        return None  # reading its environment would wait with it
    environ = procfs.environ(pid)
    told = rank_told(pid, environ)
    if told.rank is not None and told.world_size is not None:
        return told
    own = procfs.stat(pid)
    above = [own.parent] if own is not None else []
    for launcher in [*above, pid]:  # a training script may be the first rank itself, and have started the others
        ranks = launcher_ranks(launcher) if procfs.is_python(launcher) else []
        place = next((n for n, rank in enumerate(ranks) if rank.pid == pid), None)
        if place is not None:
            found = ranks[place]
            number = place if found.rank is None else found.rank
            return replace(found, rank=number, world_size=found.world_size or len(ranks))
        if ranks and launcher == pid:
            return None  # it has started ranks, and is none
    return _own_task(pid, environ, own.parent) if own is not None else None


def _own_task(pid: int, environ: Mapping[str, str], parent: int) -> RankProcess | None:
    """Which task of several it is, and not a part of one that trains: what that has started was told the same."""
    own = task_told(pid, environ)
    if own is None or procfs.uninterruptible([parent]) or task_told(pid, procfs.environ(parent)) != own:
        return own
    trains = _frameworks(procfs.mapped(parent)) and not is_launcher(procfs.command(parent))
    return None if trains else own


def _frameworks(maps: bytes) -> tuple[str, ...]:
    """The deep learning libraries that a process has mapped."""
    return tuple(name for name, files in _FRAMEWORKS.items() if any(file in maps for file in files))


def launcher_of(pid: int) -> int | None:
    """The process above `pid` that started it as a rank, or None. A few ms."""
    table = procfs.processes()
    own = table.get(pid)
    for _ in range(_ANCESTORS):
        if own is None or own.parent <= 1:
            return None
        if procfs.is_python(own.parent) and any(rank.pid == pid for rank in launcher_ranks(own.parent)):
            return own.parent
        own = table.get(own.parent)
    return None


def part_of(pid: int) -> Part | None:
    """What `pid` is of a job of several processes: a rank of a launcher, a worker of a Ray job or its driver. 10 ms or so."""
    launcher = launcher_of(pid)
    if launcher is not None:
        return Part(_launcher_name(launcher), "rank")
    from ..outside.raystate.membership import membership

    ray = membership(pid)
    if ray is None or (ray.driver and rank_of(pid) is not None):
        return None  # a rank that has Ray load its data is no driver of other ranks
    return Part(ray.target, "driver" if ray.driver else "worker")


def _launcher_name(pid: int) -> str:
    return str(TargetName("launcher", str(pid)))


def sweep() -> list[str]:
    """Remove the meeting places of this user's agents whose process has ended; returns the directories that were
    removed.

    An agent of a container that shares our /tmp has a pid that means nothing here, so a directory also stays while its
    socket answers, and for a minute after it was made.
    """
    base = rendezvous.base(os.getuid())
    removed = []
    for pid, ticks, entry in _meeting_places(base):
        process = procfs.stat(pid)
        if process is not None and process.start_ticks == ticks:
            continue
        if time.time() - _mtime(entry.path) > _YOUNG_S and not _answers(entry.path):
            rendezvous.remove(entry.path)
            removed.append(entry.path)
    return removed


# --- the survey ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """A process that may be a target."""

    process: Process
    command: Sequence[str]
    frameworks: Sequence[str]
    environ: Mapping[str, str]

    @property
    def pid(self) -> int:
        return self.process.pid


class _Survey:
    """One look at all processes; /proc is read once for each, and only as deep as needed."""

    def __init__(self, only_below: int | None = None) -> None:
        self.table = procfs.processes()
        pids = (
            [only_below, *(p.pid for p in procfs.descendants(only_below, self.table))]
            if only_below
            else list(self.table)
        )
        self.stuck = frozenset(procfs.uninterruptible(pids))
        self.with_agent = _pids_with_a_card()
        self.fork_servers: set[int] = set()
        self.seen = {pid: seen for pid in pids if (seen := self._look(pid)) is not None}

    def _look(self, pid: int) -> _Seen | None:
        process = self.table.get(pid)
        if (
            process is None
            or pid == os.getpid()
            or pid in self.stuck
            or process.state in "ZX"
            or not foreign.may_see(pid)
            or process.comm == "pt_data_worker"
        ):
            return None
        command = procfs.command(pid)
        if is_of_a_fork_server(command) and procfs.serves_multiprocessing(process):
            self.fork_servers.add(pid)
            return None
        if is_helper(command):
            return None
        maps = procfs.mapped(pid)
        frameworks = _frameworks(maps)
        ours = frameworks or is_launcher(command) or connection_file(command) or pid in self.with_agent
        environ = procfs.environ(pid) if ours or b"python" in maps else {}
        return _Seen(process, command, frameworks, environ) if ours or "RANK" in environ else None

    # --- ranks

    def ranks_of(self, pid: int) -> list[RankProcess]:
        """The ranks of a launcher, whether started through the environment or by multiprocessing."""
        launcher = self.seen.get(pid)
        if launcher is None:
            return []
        by_name = is_launcher(launcher.command)
        if not by_name and ("RANK" in launcher.environ or _is_rank_of_its_parent(launcher)):
            return []
        found = list(self._topmost_ranks(pid)) or [
            seen for seen in self._children(pid) if seen.frameworks and (by_name or self._started_as_rank(seen))
        ]
        ranks = [rank_told(seen.pid, seen.environ) for seen in found]
        ranks += self._stuck_ranks(pid, ranks)
        if launcher.frameworks and not by_name and found and all(map(_is_rank_of_its_parent, found)):
            ranks = _with_their_parent(launcher, found[0].environ, ranks)
        return sorted(ranks, key=lambda r: (r.rank is None, r.rank or 0, self.table[r.pid].start_ticks, r.pid))

    def _stuck_ranks(self, pid: int, others: Sequence[RankProcess]) -> list[RankProcess]:
        """The children that lie in uninterruptible sleep and so cannot be asked for their rank. Launchers start ranks in order."""
        parents = {pid} | {self.table[other.pid].parent for other in others}
        numbers = {other.pid: other.rank for other in others}
        members = [
            p
            for p in procfs.children(parents, self.table)
            if p.pid in numbers or ((p.pid in self.stuck or p.state in "ZX") and p.comm.startswith(_RANK_NAMES))
        ]  # the dead ones count in the order
        first = next((n - i for i, p in enumerate(members) if (n := numbers.get(p.pid)) is not None), 0)
        world_size = next((other.world_size for other in others), None)
        found = []
        for number, process in enumerate(members, first):
            if process.pid in self.stuck:
                known = None if number in numbers.values() else number
                found.append(RankProcess(process.pid, known, world_size, None if known is None else known - first))
        return found

    def _children(self, pid: int) -> Iterator[_Seen]:
        """Those that `pid` has started, or its fork server for it."""
        servers = [p.pid for p in procfs.children([pid], self.table) if p.pid in self.fork_servers]
        return (self.seen[p.pid] for p in procfs.children([pid, *servers], self.table) if p.pid in self.seen)

    def _starter(self, seen: _Seen) -> int:
        """The process that has `_children` with this one among them."""
        parent = seen.process.parent
        return self.table[parent].parent if parent in self.fork_servers else parent

    def _topmost_ranks(self, pid: int) -> Iterator[_Seen]:
        """The nearest processes below `pid` that have RANK and a framework; one that is still starting counts if
        nothing below it does.
        """
        for child in procfs.children([pid], self.table):
            if child.pid in self.stuck:
                continue  # `_stuck_ranks` has it; a child that it is just starting may still share its memory, and would look like it
            seen = self.seen.get(child.pid)
            ranked = seen is not None and "RANK" in seen.environ
            if seen is not None and ranked and seen.frameworks:
                yield seen
                continue
            below = list(self._topmost_ranks(child.pid))
            yield from below
            if seen is not None and ranked and not below and procfs.is_python(child.pid):
                yield seen

    def _started_as_rank(self, seen: _Seen) -> bool:
        """Whether a child that multiprocessing started is a rank.

        One that was spawned is taken for a rank. A fork may also be a pool worker (``datasets.map``) or, before torch
        2.5, an unnamed DataLoader worker: it must have a network connection of its own, as members of a process group
        have.
        """
        if _is_rank_of_its_parent(seen) or any("multiprocessing.spawn" in part for part in seen.command):
            return True
        parent = seen.process.parent
        return procfs.forked_from_parent(seen.pid, self.table) and bool(
            procfs.tcp_sockets(seen.pid) - procfs.tcp_sockets(parent)
        )

    # --- targets

    def targets(self) -> list[Target]:
        """Launchers, each followed by its ranks, then everything else by pid, other users' programs last."""
        groups = self._groups()
        found: list[Target] = []
        for pid, ranks in groups.items():
            seen = [r for r in ranks if r.pid in self.seen]  # the others are listed as stuck, below
            members = [t for r in seen if (t := self._rank_target(r, _launcher_name(pid))) is not None]
            found += [self._launcher_target(pid, members), *members]
        # A kernel that started ranks is both: a launcher, and a kernel of its own.
        listed = {t.pid for t in found if connection_file(self.seen[t.pid].command) is None}
        rest = [t for pid in sorted(self.seen.keys() - listed) if (t := self._other_target(self.seen[pid])) is not None]
        stuck = [t for pid in sorted(self.stuck) if (t := self._stuck_target(pid)) is not None]
        return self._with_notebooks(found + rest) + stuck + foreign.targets(self.table, self.stuck)

    def _with_notebooks(self, found: Sequence[Target]) -> list[Target]:
        """The targets, kernels among them with their notebooks."""
        files = {pid: file for pid, seen in self.seen.items() if (file := connection_file(seen.command)) is not None}
        kernels = [Kernel(pid, file, self.seen[pid].environ.get(VARIABLE, "")) for pid, file in files.items()]
        known = notebooks(kernels, self.table)
        return [replace(t, notebook=known[t.pid]) if t.pid in known else t for t in found]

    def _groups(self) -> dict[int, list[RankProcess]]:
        """Ranks by launcher. Of nested launchers (``deepspeed``) the inner one has the ranks and the outer one is not
        listed.
        """
        groups = {pid: self.ranks_of(pid) for pid in sorted(self.seen)}
        groups = {pid: ranks for pid, ranks in groups.items() if ranks or is_launcher(self.seen[pid].command)}
        return {pid: ranks for pid, ranks in groups.items() if not self._has_inner_launcher(pid, groups)}

    def _has_inner_launcher(self, pid: int, groups: Mapping[int, Sequence[RankProcess]]) -> bool:
        mine = {r.pid for r in groups[pid]}
        below = {p.pid for p in procfs.descendants(pid, self.table)}
        return any(other in below and mine <= {r.pid for r in groups[other]} for other in groups)

    def _target(self, seen: _Seen, **fields: object) -> Target:
        uid = procfs.uid(seen.pid)
        known: Maybe[str] = ", ".join(seen.frameworks) or NotAvailable("no deep learning library is loaded")
        target = Target(
            name=str(seen.pid),
            pid=seen.pid,
            kind="process",
            command=written(seen.command),
            user=procfs.user(uid),
            running_s=procfs.running_s(seen.process),
            framework=known,
            agent=uid is not None and _has_agent(seen.pid),
        )
        return replace(target, **fields)  # type: ignore[arg-type]

    def _rank_target(self, rank: RankProcess, part_of: str) -> Target | None:
        target = self._target(
            self.seen[rank.pid], kind="rank", rank=rank.rank, world_size=rank.world_size, part_of=part_of
        )
        return _with_reason(target)

    def _launcher_target(self, pid: int, members: Sequence[Target]) -> Target:
        closed = [t.why_not for t in members if t.why_not is not None]
        why_not = text("it has no ranks yet") if not members else closed[0] if len(closed) == len(members) else None
        return self._target(
            self.seen[pid],
            name=_launcher_name(pid),
            kind="launcher",
            world_size=next((t.world_size for t in members), None),
            agent=bool(members) and all(t.agent for t in members),
            why_not=why_not,
        )

    def _other_target(self, seen: _Seen) -> Target | None:
        if self._starter(seen) in self.seen and procfs.forked_from_parent(seen.pid, self.table):
            return None  # a pool worker of a process that is listed
        file = connection_file(seen.command)
        if file is not None:
            return self._target(seen, name=str(TargetName("kernel", kernel_name(file))), kind="kernel")
        if is_launcher(seen.command) or not (seen.frameworks or seen.pid in self.with_agent):
            return None  # the outer one of nested launchers, or a wrapper of a rank
        if "RANK" in seen.environ and not self._below_a_rank(seen):
            rank = rank_told(seen.pid, seen.environ)
            return _with_reason(self._target(seen, kind="rank", rank=rank.rank, world_size=rank.world_size))
        task = _own_task(seen.pid, seen.environ, self._starter(seen))
        if task is not None:
            return _with_reason(self._target(seen, kind="rank", rank=task.rank, world_size=task.world_size))
        return _with_reason(self._target(seen))

    def _below_a_rank(self, seen: _Seen) -> bool:
        parent = self.seen.get(self._starter(seen))
        return parent is not None and (
            bool(parent.frameworks and "RANK" in parent.environ) or self._below_a_rank(parent)
        )

    def _stuck_target(self, pid: int) -> Target | None:
        """A Python process in uninterruptible sleep: named, but not looked into, as reading its memory map could hang
        us as well.
        """
        process = self.table.get(pid)
        if process is None or not foreign.may_see(pid) or not process.comm.startswith("python"):
            return None
        return Target(
            name=str(pid),
            pid=pid,
            kind="process",
            command=process.comm,
            user=procfs.user(procfs.uid(pid)),
            running_s=procfs.running_s(process),
            framework=NotAvailable("the process is in uninterruptible sleep"),
            why_not=text(
                "it is in uninterruptible sleep (state D), in a driver or on a file system that does not answer"
            ),
        )


# --- what its environment says of a rank ----------------------------------------------------------------------------


def _is_rank_of_its_parent(seen: _Seen) -> bool:
    """Whether a training script started this one beside itself, as Lightning does: it tells it the local rank and no other.

    0 is the script's own, which the tools that it starts inherit.
    """
    told = seen.environ
    return told.get("LOCAL_RANK", "0") != "0" and "WORLD_SIZE" in told and "RANK" not in told


def _with_their_parent(parent: _Seen, told: Mapping[str, str], children: Sequence[RankProcess]) -> list[RankProcess]:
    """The ranks of a script that is local rank 0 itself; `told`: the environment of a child."""
    node = told.get("NODE_RANK", "")
    first = int(node) * (len(children) + 1) if node.isdigit() else 0
    numbered = [replace(c, rank=first + c.local_rank) for c in children if c.local_rank is not None]
    world_size = children[0].world_size
    return [RankProcess(parent.pid, first, world_size, 0), *numbered]


# --- agents and permissions ----------------------------------------------------------------------------------------


def _with_reason(target: Target) -> Target:
    """The target with what keeps us out of it, if anything does; an agent that answers makes the question idle."""
    if target.agent:
        return target
    from .inject import why_not

    return replace(target, why_not=why_not(target.pid))


def _has_agent(pid: int) -> bool:
    try:
        place = meeting_place(pid, _CONNECT_S)
    except TraindbgError:
        return False  # the process has ended, or its file system hangs
    return place is not None and _answers(place)


def _answers(place: str) -> bool:
    """Whether somebody listens on the socket of a meeting place."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(os.path.join(place, rendezvous.SOCKET))
        except OSError:
            return False
        return True


def _meeting_places(base: str) -> Iterator[tuple[int, int, os.DirEntry[str]]]:
    """``(pid, start ticks, directory)`` for each meeting place in `base`, which must be a real directory."""
    if os.path.islink(base) or not os.path.isdir(base):
        return
    try:
        entries = list(os.scandir(base))
    except OSError:
        return  # its last agent has just removed it
    for entry in entries:
        pid, dash, ticks = entry.name.partition("-")
        if dash and pid.isdigit() and ticks.isdigit() and entry.is_dir(follow_symlinks=False):
            yield int(pid), int(ticks), entry


def _pids_with_a_card() -> frozenset[int]:
    """The processes of this user (for root: of every user) that have a meeting place here."""
    uids = _uids_with_a_base() if os.geteuid() == 0 else [os.getuid()]
    return frozenset(pid for uid in uids for pid, _, _ in _meeting_places(rendezvous.base(uid)))


def _uids_with_a_base() -> list[int]:
    folder, prefix = os.path.split(rendezvous.base(0).removesuffix("0"))
    numbers = (name.removeprefix(prefix) for name in os.listdir(folder) if name.startswith(prefix))
    return [int(number) for number in numbers if number.isdigit()]


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()  # somebody else is removing it: leave it to them
