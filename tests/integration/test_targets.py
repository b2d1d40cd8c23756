"""What is found on this host: launchers of every kind with their ranks, kernels, plain processes; and what is left
out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import need, until

from jupyter_traindbg import command_lines
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach import discover, inject, process
from jupyter_traindbg.model import NotAvailable, Target, TargetName
from jupyter_traindbg.outside import procfs

SCRIPTS = Path(sys.executable).parent
RANKS = ["--nproc-per-node", "2"]
GONE = 2**22 + 1
WHERE_WE_ARE = {"PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("python /venv/bin/torchrun --nproc-per-node 2 train.py", True),
        ("/venv/bin/python3.12 -u -X dev -m torch.distributed.run train.py", True),
        ("python /venv/bin/accelerate launch train.py", True),
        ("python /venv/bin/accelerate config", False),
        ("python -u -m deepspeed.launcher.launch --world_info=e30= train.py", True),
        ("python train.py torchrun", False),
        ("python -m train torch.distributed.run", False),
        ("python -c torchrun", False),
        ("bash torchrun", False),
        ("python", False),
        ("", False),
    ],
)
def test_launchers_are_known_by_their_command_line(line, launcher):
    assert command_lines.is_launcher(line.split()) is launcher


def found_below(pid: int) -> list[Target]:
    """The targets that are `pid` or live below it (other tests may run beside us), in the order given."""
    ours = {pid, *(p.pid for p in procfs.descendants(pid))}
    return [t for t in discover.targets() if t.pid in ours]


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-m", "torch.distributed.run", *RANKS],
        [str(SCRIPTS / "torchrun"), *RANKS],
        [str(SCRIPTS / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2"],
    ],
    ids=["torch.distributed.run", "torchrun", "accelerate"],
)
def test_a_launcher_and_its_ranks(start, command):
    need(command[0], Path(command[0]).exists())
    began = time.monotonic()
    launcher = start("hung_gloo.py", command=command)
    ranks = discover.launcher_ranks(launcher.pid)
    assert [(r.rank, r.world_size, r.local_rank) for r in ranks] == [(0, 2, 0), (1, 2, 1)]
    assert all(procfs.environ(r.pid)["RANK"] == str(r.rank) for r in ranks)
    top, *below = found_below(launcher.pid)
    assert (top.name, top.kind, top.world_size, top.framework) == (f"torchrun:{launcher.pid}", "launcher", 2, "torch")
    assert [(t.pid, t.name, t.kind, t.rank, t.part_of) for t in below] == [
        (r.pid, str(r.pid), "rank", r.rank, top.name) for r in ranks
    ]
    assert all(t.framework == "torch" and "hung_gloo.py" in t.command for t in below)
    since = time.monotonic() - began + 1
    assert all(0 < t.running_s < since for t in below), "the ages of processes that came since then"
    assert discover.launcher_ranks(ranks[0].pid) == []
    asked = [link for r in ranks for link in process.links(TargetName("process", str(r.pid)), 5.0)]
    assert [(link.rank, link.world_size) for link in asked] == [(0, 2), (1, 2)], "by its pid it is the same rank"


def test_accelerate_with_one_process(start):
    command = SCRIPTS / "accelerate"
    need("accelerate", command.exists())
    launcher = start("train.py", "--sleep", "0.1", command=[str(command), "launch", "--cpu", "--num_processes", "1"])
    (rank,) = discover.launcher_ranks(launcher.pid)
    assert (rank.rank, rank.world_size) == (None, None)
    assert [(t.pid, t.kind) for t in found_below(launcher.pid)] == [(launcher.pid, "launcher"), (rank.pid, "rank")]


def test_ranks_of_mp_spawn_without_their_workers(start, tmp_path):
    launcher = start("spawned_ranks.py", str(tmp_path / "store"))
    assert sum(p.comm == "pt_data_worker" for p in procfs.descendants(launcher.pid)) == 2
    ranks = discover.launcher_ranks(launcher.pid)
    assert [(r.rank, r.world_size, r.local_rank) for r in ranks] == [(None, None, None)] * 2
    assert [(t.pid, t.kind, t.part_of) for t in found_below(launcher.pid)] == [
        (launcher.pid, "launcher", None),
        *((r.pid, "rank", f"torchrun:{launcher.pid}") for r in ranks),
    ]
    assert [(rank.rank, rank.world_size) for r in ranks if (rank := discover.rank_of(r.pid))] == [(0, 2), (1, 2)]
    assert discover.rank_of(launcher.pid) is None


# the latter is Python's own choice from 3.14 on
@pytest.mark.parametrize(("method", "helpers"), [("fork", 0), ("forkserver", 2)])
def test_forked_ranks_and_pool_workers_are_told_apart(start, tmp_path, method, helpers):
    launcher = start("spawned_ranks.py", str(tmp_path / "store"), method)
    assert len(discover.launcher_ranks(launcher.pid)) == 2
    assert [t.kind for t in found_below(launcher.pid)] == ["launcher", "rank", "rank"]
    pool = start("fork_pool.py", method)
    assert len(procfs.descendants(pool.pid)) == 2 + helpers
    assert discover.launcher_ranks(pool.pid) == []
    assert [(t.pid, t.kind) for t in found_below(pool.pid)] == [(pool.pid, "process")]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_plain_process_without_its_workers(start, method):
    target = start("hung_loader.py", method)
    (found,) = found_below(target.pid)
    assert (found.name, found.kind, found.framework) == (str(target.pid), "process", "torch")
    assert (found.rank, found.part_of, found.agent, found.user) == (None, None, False, procfs.user(os.getuid()))
    assert discover.launcher_ranks(target.pid) == []


def test_a_rank_without_a_launcher_here(start):
    target = start("hung_loader.py", env={"RANK": "3", "WORLD_SIZE": "8"})
    (found,) = found_below(target.pid)
    assert (found.kind, found.rank, found.world_size, found.part_of) == ("rank", 3, 8, None)


@pytest.mark.parametrize("flag", ["-f ", "--f=", "-f="])
def test_a_kernel_is_listed_without_torch(tmp_path, flag):
    file = tmp_path / "kernel-1234-ab.json"
    command = [sys.executable, "-m", "ipykernel_launcher", *f"{flag}{file}".split()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as kernel:
        try:
            (found,) = found_below(kernel.pid)
            assert (found.name, found.kind, found.why_not) == ("kernel:1234-ab", "kernel", None)
            assert isinstance(found.framework, NotAvailable)
        finally:
            kernel.kill()


def test_a_kernel_with_a_file_of_another_name_is_named_by_the_file(tmp_path):
    file = tmp_path / "mine.json"
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as kernel:
        try:
            assert [t.name for t in found_below(kernel.pid)] == [f"kernel:{file}"]
        finally:
            kernel.kill()


def test_why_not_is_asked_unless_an_agent_answers(start, monkeypatch):
    asked = []
    monkeypatch.setattr(inject, "why_not", lambda pid: asked.append(pid) or f"no ptrace of {pid}")
    plain, prepared = start("hung_loader.py"), start("with_card.py", env=WHERE_WE_ARE)
    (closed,), (open_,) = found_below(plain.pid), found_below(prepared.pid)
    assert (closed.why_not, closed.attachable) == (f"no ptrace of {plain.pid}", False)
    assert (open_.agent, open_.why_not, open_.attachable) == (True, None, True)
    assert plain.pid in asked
    assert prepared.pid not in asked


def test_a_launcher_is_closed_where_all_its_ranks_are(start, monkeypatch, tmp_path):
    launcher = start("spawned_ranks.py", str(tmp_path / "store"))
    ranks = [r.pid for r in discover.launcher_ranks(launcher.pid)]
    monkeypatch.setattr(inject, "why_not", lambda pid: "closed" if pid in ranks else None)
    assert [t.why_not for t in found_below(launcher.pid)] == ["closed"] * 3
    monkeypatch.setattr(inject, "why_not", lambda pid: "closed" if pid == ranks[0] else None)
    assert [t.why_not for t in found_below(launcher.pid)] == [None, "closed", None]


def test_an_agent_that_is_stopped_is_not_waited_for(start):
    prepared = start("with_card.py", env=WHERE_WE_ARE)
    os.kill(prepared.pid, signal.SIGSTOP)
    for _ in range(20):  # more than its backlog holds
        (found,) = found_below(prepared.pid)
    assert not found.agent


def test_a_process_in_uninterruptible_sleep_is_listed_but_not_looked_into(start):
    target = start("in_driver.py")
    while not procfs.uninterruptible([target.pid]):
        time.sleep(0.01)
    (found,) = [t for t in discover.targets() if t.pid == target.pid]
    assert "uninterruptible sleep" in str(found.why_not)
    assert isinstance(found.framework, NotAvailable)


def test_what_has_ended_is_no_target(start):
    prepared = start("with_card.py", env=WHERE_WE_ARE)
    assert found_below(prepared.pid)
    prepared.process.kill()
    until(lambda: not procfs.exists(prepared.pid), "it dies")
    assert found_below(prepared.pid) == [], "its parent, which is this test, has not taken note of it"


AS_ANOTHER_USER = """
import json, os, sys
from jupyter_traindbg.attach import discover, inject
from jupyter_traindbg.attach.ray import discover as ray
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps([[t.pid, t.name, t.kind, t.user, t.why_not, t.attachable] for t in discover.targets()]))
"""


def test_the_jobs_of_another_user_are_listed_with_what_is_in_the_way(start):
    need("root, to look as another user", os.geteuid() == 0)
    launcher = start("hung_gloo.py", command=[sys.executable, "-m", "torch.distributed.run", *RANKS])
    plain, bystander = start("hung_loader.py"), start("hung_lock.py")
    seen = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER], capture_output=True, text=True, timeout=60, check=False
    )
    assert seen.returncode == 0, seen.stderr
    listed = {pid: rest for pid, *rest in json.loads(seen.stdout)}
    me, them = procfs.user(os.getuid()), procfs.user(65534)
    closed = [f"process {pid} belongs to {me}, you are {them}" for pid in (launcher.pid, plain.pid)]
    assert listed[launcher.pid] == [f"torchrun:{launcher.pid}", "launcher", me, closed[0], False]
    assert listed[plain.pid] == [str(plain.pid), "process", me, closed[1], False]
    below = {p.pid for p in procfs.descendants(launcher.pid)} | {p.pid for p in procfs.descendants(plain.pid)}
    assert not below & listed.keys(), "a launcher stands for its ranks, a training for its workers"
    assert bystander.pid not in listed


def test_neither_we_nor_bystanders_are_targets(start):
    bystander = start("hung_lock.py")
    found = {t.pid for t in discover.targets()}
    assert os.getpid() not in found
    assert bystander.pid not in found
    assert discover.launcher_ranks(os.getpid()) == []
    assert discover.launcher_ranks(GONE) == []


@pytest.fixture
def base():
    """This user's directory of meeting places, without what earlier runs left in it."""
    path = Path(rendezvous.base(os.getuid()))
    rendezvous.make_private(str(path), os.getuid())
    discover.sweep()
    yield path
    for mine in path.glob(f"{GONE}-*"):
        shutil.rmtree(mine)


def aged(place: Path) -> Path:
    place.mkdir(mode=0o700)
    (place / rendezvous.CARD).write_text("{}")
    os.utime(place, (time.time() - 3600,) * 2)
    return place


def test_sweep_removes_what_the_dead_left(base, start):
    dead = aged(base / f"{GONE}-1")
    young = base / f"{GONE}-2"
    young.mkdir(mode=0o700)
    living = start("with_card.py", env=WHERE_WE_ARE)
    recycled = aged(base / f"{living.pid}-1")  # the pid is in use again, by a process that started later
    other = base / f"{GONE}-notes"
    other.mkdir()
    assert sorted(discover.sweep()) == sorted([str(dead), str(recycled)])
    assert not dead.exists()
    assert young.exists()
    assert other.exists()
    assert Path(rendezvous.directory(living.pid, os.getuid())).exists()


def test_sweep_keeps_a_place_whose_socket_answers(base):
    place = aged(base / f"{GONE}-7")
    with socket.socket(socket.AF_UNIX) as listener:  # an agent in a container that shares this /tmp
        listener.bind(str(place / rendezvous.SOCKET))
        listener.listen()
        os.utime(place, (time.time() - 3600,) * 2)
        assert str(place) not in discover.sweep()
    assert discover.sweep() == [str(place)]


def test_sweep_does_not_follow_links(base, tmp_path):
    precious = aged(tmp_path / "precious")
    link = base / f"{GONE}-9"
    link.symlink_to(precious)
    try:
        assert discover.sweep() == []
    finally:
        link.unlink()
    assert precious.exists()
