"""Several hosts on this machine that ssh reaches: each with processes, network, name and /tmp of its own, and a real sshd.

A host is a set of namespaces, held by its first process; an Ethernet of our own joins them. ssh comes to the sshd of a host through a
pipe (`ProxyCommand`), so that nothing of it is to be seen on this machine's own network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support import PROGRAMS, REPO, need

from jupyter_traindbg.outside import procfs

SSHD = "/usr/sbin/sshd"
PRIVILEGES = Path("/run/sshd")
"""Where sshd keeps its privileges apart; a system that was never booted lacks it."""
COMES_UP_S = 20.0
INSIDE = """
set -e
hostname {name}
{keep}
mount -t tmpfs -o mode=1777 tmpfs /tmp
{give_back}
exec sleep infinity
"""
"""A host's first process: keeps the folders that all hosts share, gives the others a /tmp of their own, and then holds it all."""
HERE = """#!/bin/sh
exec {sshd} -i -e -f {folder}/sshd_config 2>>{folder}/sshd.log
"""
LETS_IN = """#!/bin/sh
[ -e {folder}/{name}.cut ] && exec sleep infinity
[ -e {folder}/{name}.noise ] && cat {folder}/{name}.noise
exec nsenter -t {pid} -a -- {sshd} -i -e -f {folder}/sshd_config 2>>{folder}/sshd.log
"""
BARE_PYTHON = """#!/bin/sh
exec {python} -S "$@"
"""
"""A host's Python without a single package: whatever runs there of ours has to do without."""
SSHD_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
SetEnv PATH={path}
"""
SSH_CONFIG = """
Host {name}
  ProxyCommand {folder}/{name}.proxy
  HostKeyAlias {name}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
"""


@dataclass
class Host:
    """One of them. `address` is that of its network card, by which the others reach it."""

    name: str
    number: int
    folder: Path
    holder: subprocess.Popen[bytes]
    pid: int
    """Its first process, as this machine numbers it."""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"10.77.0.{self.number}"

    def start(self, words: Sequence[str], log: Path, **variables: str) -> subprocess.Popen[bytes]:
        """Run a program on it; it ends with the host at the latest."""
        with open(log, "ab") as out:
            process = subprocess.Popen(
                self.enter(*words), stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **variables}
            )
        self.started.append(process)
        return process

    def pid_of(self, started: subprocess.Popen[bytes]) -> int:
        """What it is as the host numbers it."""
        ends = time.monotonic() + COMES_UP_S
        while not (inside := _children(started.pid)):  # who brings it there is between us
            assert time.monotonic() < ends, "it did not begin"
            time.sleep(0.01)
        numbers = re.search(r"^NSpid:(.*)$", Path(f"/proc/{inside[0]}/status").read_text(), re.MULTILINE)
        assert numbers is not None
        return int(numbers[1].split()[-1])

    def run(self, *words: str) -> str:
        """What a program prints that runs on it and ends."""
        done = subprocess.run(self.enter(*words), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def enter(self, *words: str) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-a", "--", *words]

    def cut_off(self) -> None:
        """From now on whoever connects waits, and who is connected hears nothing."""
        (self.folder / f"{self.name}.cut").touch()
        for pid in self.servers():
            os.kill(pid, signal.SIGSTOP)

    def prints(self, noise: str) -> None:
        """Have whoever connects see this first."""
        (self.folder / f"{self.name}.noise").write_text(noise)

    def servers(self) -> list[int]:
        """The processes of sshd on it, as this machine numbers them."""
        ours = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                with contextlib.suppress(OSError):
                    if (
                        os.readlink(f"/proc/{entry}/ns/pid") == ours
                        and Path(f"/proc/{entry}/comm").read_text().strip() == "sshd"
                    ):
                        found.append(int(entry))
        return found

    def _entering(self) -> list[int]:
        """The processes of this machine that have brought ssh onto it."""
        wanted, pids = ("nsenter", "-t", str(self.pid)), map(int, filter(str.isdecimal, os.listdir("/proc")))
        return [pid for pid in pids if procfs.command(pid)[:3] == wanted]

    def end(self) -> None:
        """As if somebody had pulled its plug."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.holder.kill()
        self.holder.wait()
        for pid in self._entering():  # one whose program was stopped has stopped itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait()


def this_machine(folder: Path, name: str) -> str:
    """This machine as a host that ssh reaches by `name`; what stands for ``ssh``. Nothing listens: its sshd serves one pipe."""
    _need_ssh()
    _trust(folder, [name])
    _program(folder / f"{name}.proxy", HERE.format(folder=folder, sshd=SSHD))
    return command(folder)


@contextlib.contextmanager
def hosts(folder: Path, names: Sequence[str], shared: Sequence[Path] = ()) -> Iterator[list[Host]]:
    """Hosts of these names, and ``TRAINDBG_SSH`` for reaching them, in ``folder / "ssh"``. `shared`: folders that all of them see.

    Skips, with the reason, where there are no means for that; fails in CI.
    """
    need("root, for hosts of their own", os.geteuid() == 0)
    for tool in ("unshare", "nsenter", "ip"):
        need(tool, shutil.which(tool) is not None)
    _need_ssh()
    _trust(folder, names)
    made: list[Host] = []
    switch = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        _until(lambda: _runs_sleep(switch.pid), switch)  # before that it is in this machine's own network
        _net(switch.pid, "link", "add", "br0", "type", "bridge")
        _net(switch.pid, "link", "set", "br0", "up")
        for number, name in enumerate(names, 1):
            made.append(_host(name, number, folder, [folder, REPO, *shared]))
            _connect(switch.pid, made[-1])
        yield made
    finally:
        for host in made:
            host.end()
        switch.kill()
        switch.wait()


def command(folder: Path) -> str:
    """What stands for ``ssh``."""
    return f"ssh -F {folder}/config"


def torchrun(
    where: Sequence[Host],
    program: str,
    *arguments: str,
    per_host: int = 1,
    folder: Path,
    own: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Start a program of tests/programs with `per_host` ranks on each of them, as one job over gloo. `own`: variables of a host alone."""
    for rank, host in enumerate(where):
        words = [f"--nnodes={len(where)}", f"--node-rank={rank}", f"--nproc-per-node={per_host}"]
        words += [f"--master-addr={where[0].address}", "--master-port=29500", str(PROGRAMS / program), *arguments]
        started = [os.path.join(REPO, ".venv/bin/python"), "-m", "torch.distributed.run", *words]
        variables = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", **(own or {}).get(host.name, {})}
        host.start(started, folder / f"{host.name}.log", **variables)


def ranks(where: Sequence[Host], program: str, *arguments: str, per_host: int = 1, folder: Path) -> None:
    """The same without a launcher on the hosts, as ``srun`` and ``mpirun`` start ranks."""
    world = len(where) * per_host
    for rank in range(world):
        host, local = where[rank // per_host], rank % per_host
        job = {"MASTER_ADDR": where[0].address, "MASTER_PORT": "29501", "WORLD_SIZE": str(world)}
        own = {"RANK": str(rank), "LOCAL_RANK": str(local), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        words = [os.path.join(REPO, ".venv/bin/python"), str(PROGRAMS / program), *arguments]
        host.start(words, folder / f"{host.name}.log", **job, **own)


def _need_ssh() -> None:
    for tool in ("ssh", "ssh-keygen"):
        need(tool, shutil.which(tool) is not None)
    need("sshd", os.path.exists(SSHD))
    if os.geteuid() == 0:
        PRIVILEGES.mkdir(mode=0o755, exist_ok=True)


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _trust(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("key", "host_key"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(made, check=True, timeout=60, stdin=subprocess.DEVNULL)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    _program(folder / "bin" / "python3", BARE_PYTHON.format(python=f"{sys.base_prefix}/bin/python3"))
    (folder / "sshd_config").write_text(SSHD_CONFIG.format(folder=folder, path=f"{folder}/bin:/usr/bin:/bin"))
    (folder / "config").write_text("".join(SSH_CONFIG.format(folder=folder, name=name) for name in names))


def _host(name: str, number: int, folder: Path, shared: Sequence[Path]) -> Host:
    below = [path for path in dict.fromkeys(shared) if path.is_relative_to("/tmp")]
    keep = "\n".join(f"exec {n}<{path}" for n, path in enumerate(below, 3))
    give_back = "\n".join(
        f"mkdir -p {path}; mount --no-canonicalize --bind /proc/self/fd/{n} {path}" for n, path in enumerate(below, 3)
    )
    inside = INSIDE.format(name=name, keep=keep, give_back=give_back)
    apart = ["--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child"]
    holder = subprocess.Popen(["unshare", *apart, "--propagation", "private", "sh", "-c", inside])
    _until(lambda: any(map(_runs_sleep, _children(holder.pid))), holder)
    host = Host(name, number, folder, holder, _children(holder.pid)[0])
    _program(folder / f"{name}.proxy", LETS_IN.format(folder=folder, name=name, pid=host.pid, sshd=SSHD))
    return host


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs_sleep(pid: int) -> bool:
    """Whether it is what holds a host, or the switch, and no shell any more that makes it."""
    return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"


def _until(ready: Callable[[], bool], holder: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + COMES_UP_S
    while not ready():
        assert holder.poll() is None, "it could not be made"
        assert time.monotonic() < ends, "it did not come up"
        time.sleep(0.01)


def _connect(switch: int, host: Host) -> None:
    port = f"h{host.number}"
    link = [
        "ip",
        "link",
        "add",
        port,
        "netns",
        str(switch),
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        str(host.pid),
    ]
    subprocess.run(link, check=True, timeout=20)
    _net(switch, "link", "set", port, "master", "br0", "up")
    _net(host.pid, "addr", "add", f"{host.address}/24", "dev", "eth0")
    for card in ("eth0", "lo"):
        _net(host.pid, "link", "set", card, "up")


def _net(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words], check=True, timeout=20)
