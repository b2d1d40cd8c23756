"""The one grammar of targets: what a person types for the job that is meant, taken apart and put together.

    4711                    a process, by its pid
    self                    this very process
    kernel:WHO              a Jupyter kernel: the name of its notebook, its id (the beginning will do), or its connection file
    torchrun:4711           all ranks of a launcher, by the launcher's pid
    ray:JOB@ADDRESS         a Ray job, by its id or its submission's; ray:JOB, ray:@ADDRESS and ray:ADDRESS for short
    ray://HOST:PORT         the only job of a Ray cluster, by its client server; http://HOST:PORT, by its dashboard
    ssh:HOST,HOST:TARGET    a job on hosts that ssh reaches; TARGET is torchrun (of the only launcher there), torchrun:4711, a pid, or
                            nothing: the only job there is
    slurm:JOB:TARGET        the same on the nodes of a Slurm job, among what runs in it; JOB is its number, NUMBER_TASK of an array, or
                            nothing: the only one that the person has running
    a/path                  the socket of an agent

A HOST is what ``ssh`` takes: a name of its configuration, a name or an address of the network, USER@ before it where need be; an IPv6
address stands in brackets, and ``node[01-16]`` is sixteen of them.
An ADDRESS is ``auto`` (``$RAY_ADDRESS``, else the only cluster of this machine), ``host:port`` of the GCS, or one of the last two URLs.
Nothing here looks whether there is such a thing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "TargetName",
    "host_begun",
    "hosts_named",
    "hosts_written",
    "is_cluster",
    "may_mean_a_target",
    "named_launcher",
    "names_slurm_job",
    "parse_cluster",
    "parse_target",
]

Kind = Literal["self", "process", "kernel", "launcher", "ray", "socket", "ssh", "slurm"]

AUTO = "auto"
_PREFIXES: Mapping[Kind, str] = {"kernel": "kernel:", "launcher": "torchrun:"}
_SELF, _RAY = "self", "ray:"
_REMOTE: Mapping[Kind, str] = {"ssh": "ssh:", "slurm": "slurm:"}
"""Each followed by where the hosts are, and a target there."""
_PID = re.compile(r"[1-9]\d{0,6}")
"""The kernel's greatest is 4194304. Eight digits are the id of a Ray job."""
_URL = re.compile(r"(?:ray|https?)://.*", re.DOTALL)
_SUBMISSION = re.compile(r"raysubmit_\w+")
_HOST_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):\d{1,5}")
_HOSTS = re.compile(r"(?:\[[^\]]*\]|[^:\[\]])*")
_BETWEEN_HOSTS = re.compile(r",(?![^\[]*\])")
_HOST = re.compile(r"(?!-)(?:[^\s:@/,\[\]-][^\s:@/,\[\]]*@)?[0-9A-Za-z_:][0-9A-Za-z_.:%-]*")
"""Nothing that ssh could take for an option of its own."""
_MANY = re.compile(r"(?P<before>[^\[\]]*)\[(?P<numbers>\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\](?P<after>.*)")
_SLURM_JOB = re.compile(r"(?:[1-9]\d*(?:_\d+)?)?")
_NUMBERED = re.compile(r"(\D*?)(\d+)(\D*)")
MOST_HOSTS = 1024
FEW = 3
"""Hosts with numbers one after the other that are written one by one."""
_IN_PLACE_OF_AN_ADDRESS = re.compile(r"auto|[a-z]+://.*|(?:\[.+\]|[^@:]+):\d+", re.DOTALL)
"""Behind ``ray:``, what is no job; be it an address that can be none, so that it is refused as one."""


@dataclass(frozen=True)
class TargetName:
    """A target as it is named. ``str()`` is its text, in the shortest form."""

    kind: Kind
    id: str = ""
    """The pid; what a kernel is called; a Ray job or submission, empty for the only one; the socket's path; on other hosts, the target
    there.
    """
    address: str = ""
    """Of the Ray cluster, as it was given; `AUTO` where none was. The hosts that ssh reaches, as they were given; the Slurm job."""

    @property
    def pid(self) -> int | None:
        """Of a process or a launcher; None where that is no number."""
        return int(self.id) if self.kind in ("process", "launcher") and self.id.isdecimal() else None

    @property
    def remote(self) -> bool:
        """Whether it is on other hosts, each of which has it as a target of its own."""
        return self.kind in _REMOTE

    def __str__(self) -> str:
        if self.kind == "ray":
            if self.address in ("", AUTO):
                return _RAY + (self.id or AUTO)
            return f"{_RAY}{self.id}@{self.address}"
        if self.remote:
            return _REMOTE[self.kind] + self.address + (f":{self.id}" if self.id else "")
        return _SELF if self.kind == "self" else _PREFIXES.get(self.kind, "") + self.id


def parse_target(text: str) -> TargetName | None:
    """What `text` names; None where it has the form of no target."""
    text = text.strip()
    if text == _SELF or _PID.fullmatch(text):
        return TargetName("self") if text == _SELF else TargetName("process", text)
    for kind, prefix in _PREFIXES.items():
        if text.startswith(prefix):
            return TargetName(kind, text.removeprefix(prefix))
    for kind, prefix in _REMOTE.items():
        if text.startswith(prefix):
            return _on_hosts(kind, text.removeprefix(prefix))
    if text.startswith(_RAY) or _URL.fullmatch(text):
        return parse_cluster(text)
    folder, slash, _ = text.partition("/")
    return TargetName("socket", text) if slash and ":" not in folder else None


def _on_hosts(kind: Kind, text: str) -> TargetName:
    hosts = _HOSTS.match(text)
    assert hosts is not None  # it takes nothing, too
    return TargetName(kind, text[hosts.end() :].removeprefix(":").strip(), hosts[0].strip())


def hosts_named(text: str) -> list[str] | None:
    """The hosts that `text` lists, as ssh takes them: ``me@a,node[08-10]`` are ``me@a``, ``node08``, ``node09`` and ``node10``, each once.

    None where one of them can be no host, or there are none, or thousands.
    """
    found: list[str] = []
    for word in _BETWEEN_HOSTS.split(text):
        spelled = _spelled_out(word.strip())
        if not spelled or len(found) + len(spelled) > MOST_HOSTS or not all(map(_HOST.fullmatch, spelled)):
            return None
        found += spelled
    return list(dict.fromkeys(found))


def hosts_written(hosts: Sequence[str]) -> str:
    """The text that `hosts_named` takes apart again: ``node[08-10],b``, with brackets around an IPv6 address."""
    runs: list[tuple[str, str, str, str]] = []
    for host in hosts:
        user, at, address = host.rpartition("@")
        numbered = None if ":" in address else _NUMBERED.fullmatch(host)
        if numbered is None:
            runs.append((f"{user}{at}[{address}]" if ":" in address else host, "", "", ""))
            continue
        before, number, after = numbered.groups()
        last = runs[-1] if runs else None
        if last is not None and (last[0], last[3]) == (before, after) and last[2] and _follows(last[2], number):
            runs[-1] = (before, last[1], number, after)
        else:
            runs.append((before, number, number, after))
    return ",".join(_run_written(*run) for run in runs)


def _follows(before: str, number: str) -> bool:
    return f"{int(before) + 1:0{len(before)}d}" == number


def _run_written(before: str, first: str, last: str, after: str) -> str:
    count = int(last) - int(first) + 1 if last else 0
    if count <= FEW:
        numbers = [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)] if last else [""]
        return ",".join(before + number + after for number in numbers)
    return f"{before}[{first}-{last}]{after}"


def host_begun(text: str) -> tuple[Kind, str, str] | None:
    """Of a target on other hosts that is just being typed: its kind, what stands before its last host or job, and that one as far as it
    is there."""
    kind = next((kind for kind, prefix in _REMOTE.items() if text.startswith(prefix)), None)
    if kind is None or ":" in text.removeprefix(_REMOTE[kind]):
        return None
    before, comma, begun = text.removeprefix(_REMOTE[kind]).rpartition(",")
    return kind, _REMOTE[kind] + before + comma, begun


def _spelled_out(word: str) -> list[str]:
    """All that ``node[1,3-5]`` or ``rack[1-2]n[1-4]`` stands for; an address in brackets without them."""
    many = _MANY.fullmatch(word)
    if many is None:
        return [re.sub(r"\[(.*)\]", r"\1", word)]
    found: list[str] = []
    for piece in many["numbers"].split(","):
        first, _, last = piece.partition("-")
        if int(last or first) - int(first) >= MOST_HOSTS:
            return []
        numbers = range(int(first), int(last or first) + 1)
        ends = _spelled_out(many["after"])
        if len(found) + len(numbers) * len(ends) > MOST_HOSTS:
            return []
        found += [f"{many['before']}{number:0{len(first)}d}{end}" for number in numbers for end in ends]
    return found


def names_slurm_job(text: str) -> bool:
    """Whether `text` can be a Slurm job: ``4242``, ``4242_7`` of an array, or nothing for the only one."""
    return _SLURM_JOB.fullmatch(text) is not None


def parse_cluster(text: str) -> TargetName:
    """What `text` names where only a Ray cluster or one of its jobs can be meant: what follows ``ray:`` will do."""
    text = text.strip()
    named = text if _URL.fullmatch(text) else text.removeprefix(_RAY)
    if _IN_PLACE_OF_AN_ADDRESS.fullmatch(named):
        return TargetName("ray", address=named)
    job, at, address = named.rpartition("@")
    return TargetName("ray", job, address or AUTO) if at else TargetName("ray", named, AUTO)


def is_cluster(text: str) -> bool:
    """Whether `text` means a Ray job or cluster, where it could also be something else: an address alone will do, a job alone will not."""
    named = parse_target(text)
    return named.kind == "ray" if named is not None else text == AUTO or _HOST_PORT.fullmatch(text) is not None


def may_mean_a_target(text: str) -> bool:
    """Whether `text` is meant as a target, be it a wrong one, where it could also be a file: a path is a file's."""
    named = parse_target(text)
    if named is not None:
        return named.kind != "socket"
    return text.isdecimal() or _SUBMISSION.fullmatch(text) is not None


def named_launcher(text: str | None) -> int | None:
    """The pid of the launcher that `text` names; None where it names something else."""
    named = parse_target(text) if text is not None else None
    return named.pid if named is not None and named.kind == "launcher" else None
