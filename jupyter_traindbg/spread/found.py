"""Which jobs run on a host, as far as they do there (`jupyter_traindbg.spread.remote` asks it on each); and which of them are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..attach import parsed, resolve
from ..attach.discover import targets
from ..errors import NoTarget, TargetGone, UnknownTarget
from ..language import text
from ..model import Target, TargetName, parse_target
from ..outside import procfs
from .part import Member

__all__ = ["LAUNCHER", "Found", "all_targets", "jobs", "whole"]

LAUNCHER = "torchrun"
"""As a target on a host: the only launcher there."""
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "")


@dataclass(frozen=True)
class Found:
    """A job, or that part of it which is on one host. ``name``: as a target there. ``port``, ``address``, ``run``: where its ranks meet,
    and the name of their run or their step of a Slurm job, as their environment tells; empty where it does not.
    """

    name: str
    command: str
    members: tuple[Member, ...]
    address: str = ""
    port: str = ""
    run: str = ""

    @property
    def world_size(self) -> int:
        """Of the whole job."""
        return max(member.world_size for member in self.members)

    @property
    def complete(self) -> bool:
        """Whether all of the job is here."""
        return len(self.members) >= self.world_size

    @property
    def launched(self) -> bool:
        """Whether it is known by a launcher on its host, and not by one of its ranks."""
        named = parse_target(self.name)
        return named is not None and named.kind == "launcher"

    def goes_with(self, other: Found) -> bool:
        """Whether both are parts of one job, as far as each tells."""
        if (
            self.complete
            or other.complete
            or (self.world_size, self.port, self.run) != (other.world_size, other.port, other.run)
        ):
            return False
        apart = not {m.rank for m in self.members} & {m.rank for m in other.members}
        return apart and (self.address == other.address or self.address in _HERE or other.address in _HERE)


def jobs(wanted: str, timeout: float, within: Sequence[str] = ()) -> list[Found]:
    """The jobs on this host that `wanted` means, a target there; `LAUNCHER` alone: of all launchers, nothing: all that train.

    `within`: of a node that has several jobs of Slurm, only what runs in those with these numbers. Enters nothing; costs a look at the
    processes. Raises what the way in raises for what is not there; none at all is an empty list.
    """
    if wanted not in ("", LAUNCHER):
        return [_of(parsed(wanted), timeout)]
    return _jobs(_targets(within), wanted, timeout)


def all_targets(timeout: float, within: Sequence[str] = ()) -> tuple[list[Target], list[Found]]:
    """What can be attached to on this host, and the jobs of it: see `jupyter_traindbg.attach.discover.targets`."""
    seen = _targets(within)
    return seen, _jobs(seen, "", timeout)


def _targets(within: Sequence[str]) -> list[Target]:
    """Of a job of Slurm also what lies in uninterruptible sleep: whose it is cannot be read without waiting with it."""
    seen = targets()
    if not within:
        return seen
    stuck = procfs.uninterruptible([one.pid for one in seen])
    return [one for one in seen if one.pid in stuck or procfs.environ(one.pid).get("SLURM_JOB_ID") in within]


def _jobs(seen: Sequence[Target], wanted: str, timeout: float) -> list[Found]:
    whole_ones = [t for t in seen if t.part_of is None and (t.kind == "launcher" or (not wanted and _trains(t)))]
    ready = [t for t in whole_ones if t.kind != "launcher" or any(other.part_of == t.name for other in seen)]
    made: list[Found] = []
    for target in [t for t in ready if t.attachable] or ready:
        named = parsed(target.name) if target.kind == "launcher" else TargetName("process", str(target.pid))
        try:
            found = _of(named, timeout)
        except (NoTarget, TargetGone):
            continue  # it has ended since it was seen; the others remain
        beside = next((one for one in made if one.goes_with(found)), None) if target.kind == "rank" else None
        if beside is None:
            made.append(found)
        else:  # ranks that `srun` or `mpirun` has started have no launcher here to be known by
            made[made.index(beside)] = replace(beside, members=(*beside.members, *found.members))
    return made


def _trains(target: Target) -> bool:
    return target.kind in ("process", "rank") or (target.kind == "kernel" and bool(target.framework))


def _of(named: TargetName, timeout: float) -> Found:
    if named.kind not in ("process", "launcher", "kernel"):
        raise UnknownTarget(
            text("{target} cannot be meant on another host", target=str(named)),
            text("name a pid there, torchrun:PID, torchrun, or kernel:ID"),
        )
    if named.kind == "kernel":
        named = TargetName("process", str(_kernel(named.id)))
    links = resolve(named, timeout)
    if not links:
        raise NoTarget(text("{target} has no process that runs", target=str(named)))
    stuck = procfs.uninterruptible([link.pid for link in links])
    first = next((procfs.environ(link.pid) for link in links if link.pid not in stuck), {})
    own = named.pid or links[0].pid
    members = tuple(Member(link.pid, link.rank, link.world_size, "", True) for link in links)
    return Found(
        str(named),
        " ".join(procfs.command(own)),
        members,
        first.get("MASTER_ADDR", ""),
        first.get("MASTER_PORT", ""),
        first.get("TORCHELASTIC_RUN_ID", first.get("SLURM_STEP_ID", "")),
    )


def _kernel(who: str) -> int:
    """The process of the kernel that is called so: by the beginning of its id, or the name of its notebook. Raises `NoTarget`."""
    kernels = [t for t in targets() if t.kind == "kernel"]
    fitting = [t for t in kernels if _kernel_id(t).startswith(who) or (t.notebook or "").rpartition("/")[2] == who]
    if len(fitting) != 1:
        raise NoTarget(
            text("no kernel is called {who}", who=who)
            if not fitting
            else text("several kernels are called {who}", who=who),
            text("`traindbg targets ssh:HOST` shows them with their pids"),
        )
    return fitting[0].pid


def _kernel_id(target: Target) -> str:
    named = parse_target(target.name)
    return named.id if named is not None and named.kind == "kernel" else ""


def whole(found: Mapping[str, Sequence[Found]]) -> list[dict[str, Found]]:
    """The jobs that parts on several hosts make: for each, its part by the host. A pure function.

    Parts go together where their number of ranks, the port they meet at and the name of their run are the same, no rank is in both, and
    neither is complete by itself; their addresses are the same, or one of them means its own host.
    """
    made: list[dict[str, Found]] = []
    parts = [(host, part) for host, those in found.items() for part in those]
    for host, part in sorted(parts, key=lambda one: one[1].address in _HERE):  # what tells more comes first
        fitting = [job for job in made if host not in job and all(part.goes_with(other) for other in job.values())]
        if fitting:
            fitting[0][host] = part
        else:
            made.append({host: part})
    order = list(found)
    return [dict(sorted(job.items(), key=lambda one: order.index(one[0]))) for job in made]
