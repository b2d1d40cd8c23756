"""A real Slurm over the hosts of `ssh_hosts`: a controller on the first, a daemon on each, and jobs that are submitted on the first."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssh_hosts import Host
from support import PROGRAMS, REPO, need

COMES_UP_S = 60.0
CONF = """
ClusterName=tests
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir=/tmp/slurmd
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeAddr={address} CPUs=4 RealMemory=4000 State=UNKNOWN"
SCRIPT = """#!/bin/sh
export MASTER_ADDR={address} MASTER_PORT={port} GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1
{command}
"""


@dataclass
class Cluster:
    """A Slurm that runs. `words`: what comes before its commands, as this machine starts them on the first host."""

    hosts: Sequence[Host]
    folder: Path
    words: Sequence[str]
    ports: Iterator[int]

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run([*self.words, *command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, command: str, *options: str) -> str:
        """The number of a job that runs `command` in a shell, as a batch script; what it writes is in ``folder / "NUMBER.out"``."""
        script = self.folder / f"job{len(list(self.folder.glob('job*')))}.sh"
        script.write_text(
            SCRIPT.format(address=self.hosts[0].address, port=next(self.ports), command=command),
        )
        where = ["--parsable", f"--chdir={self.folder}", f"--output={self.folder}/%j.out"]
        return self.ask("sbatch", *where, *options, str(script)).strip()

    def said(self, job: str, words: str, within_s: float = 90.0) -> None:
        """Wait until a job has written that."""
        log = self.folder / f"{job}.out"
        _until(lambda: log.exists() and words in log.read_text(), within_s, lambda: log.read_text()[-2000:])


def python(program: str, *arguments: str) -> str:
    """The command that runs a program of tests/programs, or a module."""
    what = [str(PROGRAMS / program)] if program.endswith(".py") else ["-m", program]
    return shlex.join([os.path.join(REPO, ".venv/bin/python"), *what, *arguments])


@contextlib.contextmanager
def slurm(hosts: Sequence[Host], folder: Path) -> Iterator[Cluster]:
    """A Slurm on them; its daemons end with the hosts. Skips, with the reason, where there is none to be had; fails in CI."""
    for tool in ("slurmctld", "slurmd", "srun", "munged"):
        need(f"{tool} (slurm-wlm)", shutil.which(tool) is not None)
    folder.mkdir(mode=0o755)
    (folder / "state").mkdir()
    conf = folder / "slurm.conf"
    nodes = "\n".join(NODE.format(name=host.name, address=host.address) for host in hosts)
    first = hosts[0]
    conf.write_text(CONF.format(controller=first.name, address=first.address, folder=folder, nodes=nodes))
    munged = _munged(folder)
    try:
        first.start(["slurmctld", "-D", "-f", str(conf)], folder / "slurmctld.log")
        for host in hosts:
            host.start(["slurmd", "-D", "-f", str(conf)], folder / f"slurmd.{host.name}.log")
        words = first.enter("env", f"SLURM_CONF={conf}")
        cluster = Cluster(hosts, folder, words, iter(range(29600, 29700)))
        _until(lambda: _idle(words) == len(hosts), COMES_UP_S, lambda: (folder / "slurmctld.log").read_text()[-2000:])
        yield cluster
    finally:
        munged.kill()
        munged.wait()


def _munged(folder: Path) -> subprocess.Popen[bytes]:
    """What vouches for users: one for all hosts, which reach it through a file."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    options = [
        f"--socket={folder}/munge.socket",
        f"--key-file={key}",
        f"--pid-file={folder}/munge.pid",
        f"--log-file={folder}/munge.log",
    ]
    options += [f"--seed-file={folder}/munge.seed", "--force"]
    with open(folder / "munged.out", "wb") as out:
        process = subprocess.Popen(["munged", "-F", *options], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    _until((folder / "munge.socket").exists, 20, (folder / "munged.out").read_text)
    return process


def _idle(words: Sequence[str]) -> int:
    told = subprocess.run(
        [*words, "sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True, timeout=30, check=False
    )
    return len(re.findall(r"(?m)^idle$", told.stdout))


def _until(ready: Callable[[], bool], within_s: float, told: Callable[[], str]) -> None:
    ends = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < ends, told()
        time.sleep(0.1)
