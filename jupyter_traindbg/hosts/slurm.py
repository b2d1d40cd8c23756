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
    "--mpi=none",
    "--unbuffered",  # an answer is no line of text, and ends with none
    "--export=PATH,HOME",
    "--chdir=/",
    "--job-name=traindbg",
)
FORMAT = "%i|%A|%T|%r|%N|%j"
"""Of each part of a job: its name as people write it, its number, state, the reason for that, nodes, and what it is called."""
LEAVES_S = 2.0


@dataclass(frozen=True)
class SlurmJob:
    """A job of Slurm's. ``id``: as people write it, ``4242``, or ``4242_7`` of an array. ``numbers``: by which what runs in it may know it.
    ``nodes``: for each of them, the options by which ``srun`` starts a step there. ``logs``: where it writes.
    """

    id: str
    called: str
    state: str
    reason: str
    numbers: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]]
    logs: tuple[str, ...] = ()


def own_jobs(timeout: float) -> list[SlurmJob]:
    """The jobs of the person who asks, in whatever state. Raises as `running`."""
    return _jobs(["--me"], timeout)


def running(wanted: str, timeout: float) -> SlurmJob:
    """The job `wanted`, or the only one that the person has running; a ``squeue`` and a ``scontrol``, 10 ms and more.

    Raises `NoTarget` where it does not run, `AmbiguousTarget` where several could be meant, `MissingPiece` without Slurm, and what
    Slurm says where it cannot tell.
    """
    found = _jobs([f"--jobs={wanted}", "--states=all"] if wanted else ["--me"], timeout)
    up = [job for job in found if job.state == "RUNNING"]
    if len(up) > 1:
        raise AmbiguousTarget(
            text("there are {count} jobs of Slurm to choose from", count=len(up)),
            candidates={_target(job.id): f"{job.called}: {hosts_written(list(job.nodes))}" for job in up},
            instead_of=_target(wanted),
        )
    if up and not up[0].nodes:
        raise CannotAttach(
            text("Slurm's job {id} has too many nodes, or some whose names cannot be read", id=up[0].id),
            text("name the hosts themselves: `traindbg targets ssh:HOST,HOST`"),
        )
    if up:
        return replace(up[0], logs=_logs_of(up[0].numbers[0], timeout))
    if found and wanted:
        job = found[0]
        why = job.state if job.reason in ("None", "") else f"{job.state}, {job.reason}"
        raise NoTarget(
            text("Slurm's job {id} does not run: {why}", id=wanted, why=why),
            _read_instead(_logs_of(job.numbers[0], timeout)),
        )
    raise NoTarget(
        text("Slurm has no job {id}", id=wanted) if wanted else text("Slurm runs no job of yours"),
        text("`squeue --me` shows yours"),
    )


def _jobs(which: Sequence[str], timeout: float) -> list[SlurmJob]:
    done = _asked(["squeue", "--noheader", f"--format={FORMAT}", *which], timeout)
    if done.returncode and "Invalid job id" not in done.stderr:
        raise CannotAttach(
            text("Slurm does not answer: {why}", why=_reason(done.stderr)), text("does `squeue --me` answer?")
        )
    return _read(done.stdout)


def _logs_of(number: str, timeout: float) -> tuple[str, ...]:
    """The files of a batch script's stderr and stdout; nothing for a job without one."""
    told = _asked(["scontrol", "--oneliner", "show", "job", number], timeout).stdout
    found = (re.search(rf"(?:^| ){name}=(/.*?)(?: \w+=|\s*$)", told, re.MULTILINE) for name in ("StdErr", "StdOut"))
    return tuple(dict.fromkeys(one[1] for one in found if one is not None and one[1] != os.devnull))


def _asked(command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """What one of Slurm's commands says. Raises `MissingPiece` and `DeadlineExceeded`."""
    words = [*_program(os.environ), *command]
    try:
        return subprocess.run(
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


def _read(told: str) -> list[SlurmJob]:
    """Jobs by the lines of `squeue`; components of a heterogeneous one are one."""
    found: dict[str, SlurmJob] = {}
    for line in told.splitlines():
        name, number, state, reason, nodes, called = line.split("|", 5)
        job, _, component = name.partition("+")
        options = (f"--jobid={job}", f"--het-group={component}") if component else (f"--jobid={number}",)
        part = SlurmJob(job, called, state, reason, (number,), dict.fromkeys(hosts_named(nodes) or [], options))
        known = found.get(job)
        found[job] = part if known is None else _together(known, part)
    return list(found.values())


def _together(known: SlurmJob, part: SlurmJob) -> SlurmJob:
    return replace(known, numbers=(*known.numbers, *part.numbers), nodes={**known.nodes, **part.nodes})


def _target(job: str) -> str:
    return str(TargetName("slurm", "", job))


def _read_instead(logs: Sequence[str]) -> str:
    """What there is to do where a job does not run."""
    log = shlex.quote(logs[0]) if logs else "FILE"
    return text("`traindbg diagnose {file}` reads what it has written", file=log)


def _program(variables: Mapping[str, str]) -> list[str]:
    return shlex.split(variables.get(COMMANDS, ""))


def _environment() -> dict[str, str]:
    return {n: value for n, value in os.environ.items() if n in KEPT or not n.startswith(("SLURM_", "SRUN_"))}


def _reason(said: str) -> str:
    """What one of Slurm's programs said was wrong, without its own name: the last line that calls itself an error, else the last."""
    lines = said.strip().splitlines() or [""]
    told = next((line for line in reversed(lines) if re.match(r"\w+: (?:error|fatal): ", line)), lines[-1])
    return re.sub(r"^\w+: (?:error: |fatal: )?", "", told)[:200] or text("it said nothing")


class SlurmLine(RemoteLine):
    """The connection to one node of a job: an ``srun`` of ours, and the helper at its other end, a step of the job."""

    python_variable = PYTHON
    leaves_s = LEAVES_S

    def __init__(self, node: str, options: Sequence[str], logs: Sequence[str] = ()) -> None:
        """`options`: those of ``srun`` that name the job. `logs`: where that writes."""
        super().__init__(node)
        self._options, self._logs = options, logs

    @property
    def by_hand(self) -> str:
        """See `RemoteLine.by_hand`."""
        return shlex.join(["srun", "--overlap", *self._which, "hostname"])

    @property
    def _which(self) -> list[str]:
        return [*self._options, f"--nodelist={self.host}"]

    def command(self, variables: Mapping[str, str]) -> list[str]:
        """See `RemoteLine.command`."""
        return [*_program(variables), "srun", *self._which, *STEP, *shell_words(variables.get(PYTHON))]

    def environment(self) -> dict[str, str]:
        """See `RemoteLine.environment`."""
        return _environment()

    def late(self, timeout: float, last_words: str) -> TraindbgError:
        """See `Line.late`: ``srun`` says what it waits for."""
        why = super().late(timeout, last_words)
        if last_words:
            why.cause = text("{cause} ({last_words})", cause=why.cause, last_words=_reason(last_words))
        return why

    def not_reached(self, said: str) -> TraindbgError:
        """See `RemoteLine.not_reached`."""
        why = _reason(said)
        if re.search(r"Invalid job id|Expired or invalid job|already completing or completed", said):
            return TargetGone(
                text("Slurm's job does not run any more on {host}: {why}", host=self.host, why=why),
                _read_instead(self._logs),
            )
        if re.search(r"Access/permission denied|Invalid user id", said):
            return NotPermitted(
                text("Slurm lets you start nothing on {host}: {why}", host=self.host, why=why),
                text("the owner of the job may, and root"),
            )
        return CannotAttach(
            text("Slurm starts nothing on {host}: {why}", host=self.host, why=why),
            text("`{command}` must get there", command=self.by_hand),
        )


def open_nodes(job: SlurmJob) -> RemoteHosts:
    """The nodes of `job`, as places to run functions. Starts nothing yet."""
    return RemoteHosts({node: SlurmLine(node, options, job.logs) for node, options in job.nodes.items()})
