"""The nodes of a Slurm job: the person's own ``srun`` starts our helper on each, as one more step of it that shares what it has."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import (
    AmbiguousTarget,
    CannotAttach,
    DeadlineExceeded,
    MissingPiece,
    NoTarget,
    NotPermitted,
    TargetGone,
    TraindbgError,
)
from ..language import text
from ..model import TargetName, hosts_named, hosts_written
from .remote import RemoteHosts, RemoteLine, shell_words

__all__ = ["SlurmJob", "SlurmLine", "open_nodes", "own_jobs", "running"]

COMMANDS, PYTHON = "TRAINDBG_SLURM", "TRAINDBG_SLURM_PYTHON"
"""Variables: the words before ``squeue`` and ``srun``; and the Python to take on the nodes, in place of the first that will do."""
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""Of Slurm's variables, those that say where it is. All others are wishes for a step of the job that *we* run in."""
STEP = (
    "--overlap",  # beside the steps that have everything; without it, it would wait for their end
    "--nodes=1",
    "--ntasks=1",
    "--cpus-per-task=1",
    "--mem=0",
    "--cpu-bind=none",
    "--mpi=none",
    "--unbuffered",  # an answer is no line of text, and ends with none
    "--export=PATH,HOME",
    "--chdir=/",
    "--job-name=traindbg",
)
FORMAT = "%i|%A|%T|%u|%r|%N|%j"
"""Of each part of a job: its name as people write it, its number, state, owner, the reason for the state, nodes, and what it is called."""
LEAVES_S = 2.0


@dataclass(frozen=True)
class SlurmJob:
    """A job that runs. ``numbers``: for each of its nodes, the number that Slurm knows its part there by; a job has one, mostly."""

    id: str
    """As people write it: ``4242``, or ``4242_7`` of an array."""
    called: str
    owner: str
    state: str
    reason: str
    numbers: Mapping[str, str]


def own_jobs(timeout: float) -> list[SlurmJob]:
    """The jobs of the person who asks, in whatever state. Raises as `running`."""
    return _jobs(["--me"], timeout)


def running(wanted: str, timeout: float) -> SlurmJob:
    """The job `wanted`, or the only one that the person has running; one ``squeue``, 10 ms and more on a busy cluster.

    Raises `NoTarget` where it does not run, `AmbiguousTarget` where several could be meant, `MissingPiece` without Slurm, and what
    Slurm says where it cannot tell.
    """
    found = _jobs([f"--jobs={wanted}", "--states=all"] if wanted else ["--me"], timeout)
    up = [job for job in found if job.state == "RUNNING"]
    if len(up) > 1:
        raise AmbiguousTarget(
            text("there are {count} jobs of Slurm to choose from", count=len(up)),
            candidates={_target(job.id): f"{job.called}: {hosts_written(list(job.numbers))}" for job in up},
            instead_of=_target(wanted),
        )
    if up:
        return up[0]
    if found and wanted:
        job = found[0]
        why = job.state if job.reason in ("None", "") else f"{job.state}, {job.reason}"
        raise NoTarget(
            text("Slurm's job {id} does not run: {why}", id=wanted, why=why),
            text("`squeue --jobs={id}` shows it; `traindbg diagnose FILE` reads what it has written", id=wanted),
        )
    raise NoTarget(
        text("Slurm has no job {id}", id=wanted) if wanted else text("Slurm runs no job of yours"),
        text("`squeue --me` shows yours"),
    )


def _jobs(which: Sequence[str], timeout: float) -> list[SlurmJob]:
    words = [*_program(os.environ), "squeue", "--noheader", f"--format={FORMAT}", *which]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env=_environment(),
            check=False,
        )
    except OSError as e:
        raise MissingPiece(
            text("Slurm's commands are not here: {program}: {why}", program=words[0], why=e.strerror or e),
            text("ask from where you would run `squeue`, or set {variable} to what leads there", variable=COMMANDS),
        ) from e
    except subprocess.TimeoutExpired as e:
        raise DeadlineExceeded(
            text("Slurm did not answer in {timeout:.1f} s", timeout=timeout), text("does `squeue --me` answer?")
        ) from e
    if done.returncode and "Invalid job id" not in done.stderr:
        raise CannotAttach(
            text("Slurm does not answer: {why}", why=_reason(done.stderr)), text("does `squeue --me` answer?")
        )
    return _read(done.stdout)


def _read(told: str) -> list[SlurmJob]:
    """Jobs by the lines of `squeue`; components of a heterogeneous one are one."""
    found: dict[str, SlurmJob] = {}
    for line in told.splitlines():
        name, number, state, owner, reason, nodes, called = line.split("|", 6)
        job, _, component = name.partition("+")
        part = SlurmJob(job, called, owner, state, reason, dict.fromkeys(hosts_named(nodes) or [], number))
        known = found.get(job)
        together = {**known.numbers, **part.numbers} if known is not None and component else part.numbers
        found[job] = replace(part, numbers=together)
    return list(found.values())


def _target(job: str) -> str:
    return str(TargetName("slurm", "", job))


def _program(variables: Mapping[str, str]) -> list[str]:
    return shlex.split(variables.get(COMMANDS, ""))


def _environment() -> dict[str, str]:
    return {n: value for n, value in os.environ.items() if n in KEPT or not n.startswith(("SLURM_", "SRUN_"))}


def _reason(said: str) -> str:
    """The last line of what one of Slurm's programs said, without its own name."""
    last = said.strip().rpartition("\n")[2]
    return re.sub(r"^\w+: (?:error: |fatal: )?", "", last)[:200] or text("it said nothing")


class SlurmLine(RemoteLine):
    """The connection to one node of a job: an ``srun`` of ours, and the helper at its other end, a step of the job."""

    python_variable = PYTHON
    leaves_s = LEAVES_S

    def __init__(self, node: str, number: str) -> None:
        super().__init__(node)
        self.number = number

    @property
    def by_hand(self) -> str:
        """See `RemoteLine.by_hand`."""
        return f"srun --overlap --jobid={self.number} --nodelist={self.host} hostname"

    def command(self, variables: Mapping[str, str]) -> list[str]:
        """See `RemoteLine.command`."""
        which = [f"--jobid={self.number}", f"--nodelist={self.host}"]
        return [*_program(variables), "srun", *which, *STEP, *shell_words(variables.get(PYTHON))]

    def environment(self) -> dict[str, str]:
        """See `RemoteLine.environment`."""
        return _environment()

    def not_reached(self, said: str) -> TraindbgError:
        """See `RemoteLine.not_reached`."""
        why = _reason(said)
        if re.search(r"Invalid job id|Expired or invalid job|already completing or completed", said):
            return TargetGone(
                text("Slurm's job {id} does not run any more: {why}", id=self.number, why=why),
                text("`traindbg diagnose FILE` reads what it wrote until then"),
            )
        if re.search(r"Access/permission denied|Invalid user id", said):
            return NotPermitted(
                text("Slurm starts nothing in job {id}: {why}", id=self.number, why=why),
                text("its owner may, and root"),
            )
        return CannotAttach(
            text("Slurm starts nothing on {host}: {why}", host=self.host, why=why),
            text("`{command}` must get there", command=self.by_hand),
        )


def open_nodes(job: SlurmJob) -> RemoteHosts:
    """The nodes of `job`, as places to run functions. Starts nothing yet."""
    return RemoteHosts({node: SlurmLine(node, number) for node, number in job.numbers.items()})
