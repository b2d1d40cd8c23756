"""Hang scenes whose ranks are on two hosts that ssh reaches (`ssh_hosts`): the verdict is what it is on one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import ssh_hosts
from hangs import Hang, Scene, asked, assert_right, scene
from ssh_hosts import Host
from support import REPO

PER_HOST = 2
NAMES = (
    "sleeping",
    "skipped_all_reduce",
    "fewer_batches",
    "loader_network",
    "half_stopped",
    "child_joined",
    "mispaired_skip",
    "marker_missing",
    "lock_file_kept",
    "compiler_waits",
    "healthy",
)
pytestmark = pytest.mark.timeout(200)


class OnHosts(Hang):
    """A scene whose ranks are below a torchrun on each of several hosts, which all write into one log."""

    def __init__(
        self, of: Scene, hosts: Sequence[Host], folder: Path, per_host: int = PER_HOST, *, apart: Host | None = None
    ) -> None:
        """`apart`: where the processes run that are none of the job's; no rank does."""
        log = folder / "ranks.log"
        variables = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "SCENE_FOLDER": str(folder)}
        self._others = (
            {} if apart is None else {role: _beside(of, role, apart, folder, variables) for role in of.beside}
        )
        started = [
            host.start(
                [
                    os.path.join(REPO, ".venv/bin/python"),
                    *("-m", "torch.distributed.run", f"--nnodes={len(hosts)}", f"--node-rank={number}"),
                    *(f"--nproc-per-node={per_host}", f"--master-addr={hosts[0].address}", "--master-port=29500"),
                    *(str(of.path), "--seed", "1"),
                ],
                log,
                SCENE_ADDRESS=host.address,
                PYTHONUNBUFFERED="1",
                **variables,
            )
            for number, host in enumerate(hosts)
        ]
        super().__init__(of, per_host * len(hosts), started[0], log)
        self._names = ",".join(host.name for host in [*hosts, *([] if apart is None else [apart])])
        self._launcher = "torchrun" if apart is None else f"torchrun:{hosts[0].pid_of(started[0])}"

    @property
    def target(self) -> str:
        return f"ssh:{self._names}:{self._launcher}"

    def called(self, role: str) -> str:
        return self._others[role]


def _beside(of: Scene, role: str, host: Host, folder: Path, variables: Mapping[str, str]) -> str:
    """Start one of the scene's processes that are none of the job's; what a finding calls it."""
    host.run("true")  # a host of which nothing has run gives the same pids as any other
    words = [os.path.join(REPO, ".venv/bin/python"), "-u", str(of.path), "--seed", "1"]
    log = folder / f"{role}.log"
    pid = host.pid_of(host.start(words, log, SCENE_ADDRESS=host.address, BESIDE=role, **variables))
    return f"pid {pid} on {host.name}"


ONE_EACH = ("mispaired_save", "ddp_label_swallowed", "fewer_batches")
"""What they say comes of comparing ranks by the source, of which none shares a host with another."""


@pytest.mark.parametrize(
    ("name", "per_host"), [*((name, PER_HOST) for name in NAMES), *((name, 1) for name in ONE_EACH)]
)
def test_the_verdict_is_what_it_is_on_one_host(name: str, per_host: int, tmp_path: Path) -> None:
    with ssh_hosts.hosts(tmp_path / "ssh", ["alpha", "beta"], [tmp_path]) as hosts:
        hang = OnHosts(scene(name), hosts, tmp_path, per_host)
        hang.wait_for("ready", 100)
        assert_right(asked(hang, TRAINDBG_SSH=ssh_hosts.command(tmp_path / "ssh")), name)


OUTSIDE = (
    "engine_ring",
    "engine_polled",
    "engine_stopped",
    "engine_untold",
    "engine_workers",
    "engine_works",
    "quota_spent",
    "reward_chain",
    "speechless",
    "stream_pauses",
)
"""They wait for processes that are no ranks."""


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_wait_is_followed_to_a_host_without_ranks(name: str, tmp_path: Path) -> None:
    with ssh_hosts.hosts(tmp_path / "ssh", ["alpha", "beta", "gamma"], [tmp_path]) as hosts:
        hang = OnHosts(scene(name), hosts[:2], tmp_path, 1, apart=hosts[2])
        hang.wait_for("ready", 100)
        assert_right(asked(hang, TRAINDBG_SSH=ssh_hosts.command(tmp_path / "ssh")), name)


def test_where_a_launcher_has_gone_with_its_ranks_they_have_ended(tmp_path: Path) -> None:
    """torchrun ends the other ranks of its host, and itself; those of the other host wait for all of them."""
    with ssh_hosts.hosts(tmp_path / "ssh", ["alpha", "beta"], [tmp_path]) as hosts:
        hang = OnHosts(scene("killed"), hosts, tmp_path)
        hang.wait_for("ready", 100)
        assert hang.culprit is not None
        assert hang.culprit >= PER_HOST, "it is on beta"
        hosts[1].started[0].wait(60)
        first = asked(hang, TRAINDBG_SSH=ssh_hosts.command(tmp_path / "ssh")).first
    assert (first["code"], first["who"]) == ("rank_ended", ["rank 2", "rank 3"])
    assert any("nothing that trains is left on beta" in line for line in first["evidence"])
    assert any("ranks 0, 1 wait" in line for line in first["evidence"])
