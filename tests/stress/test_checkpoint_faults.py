"""What goes wrong while a checkpoint is written: nobody takes a half for a whole, the older one stays, and the training goes on."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checkpointing import CLI, TWO_RANKS, command, good, unfinished, unwatched
from support import Program, Start, need, running

import traindbg
from jupyter_traindbg import checkpoints
from jupyter_traindbg.actions import checkpoint
from jupyter_traindbg.actions.checkpoint import ranks
from jupyter_traindbg.attach import payload
from jupyter_traindbg.errors import ActionRefused, TraindbgError, UnsafeCheckpoint, UsageError
from jupyter_traindbg.job import Job

WIDE = ("--width", "1000")
"""A state of 12 MB: it takes some hundredths of a second to write."""


def wait_until(true: Callable[[], bool], timeout_s: float = 60.0) -> None:
    ends = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.0005)


def being_written(directory: Path) -> bool:
    """True once some bytes of the weights are there."""
    parts = list(directory.parent.glob(f".{directory.name}.partial-*/model.pt"))
    return any(part.stat().st_size > 0 for part in parts)


# --- who dies ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A training that runs through all tests that want one."""
    with running(tmp_path_factory.mktemp("wide"), "train.py", *WIDE, "--sleep", "0.1") as program:
        yield program


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that give a client up after two seconds without a word; a minute is too long for a test."""
    patient = payload.archive()
    assert patient.count(b"SILENT_S = 60.0\n") == 1
    changed = _repacked(patient, b"\nSILENT_S = 60.0\n", b"\nSILENT_S = 2.0\n")
    monkeypatch.setattr(payload, "archive", lambda: changed)


def _repacked(archive: bytes, old: bytes, new: bytes) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            if not name.endswith(".pyc"):  # bytecode would be that of the old source
                target.writestr(name, source.read(name).replace(old, new))
    return buffer.getvalue()


@pytest.mark.usefixtures("impatient")
def test_the_client_is_killed_while_it_is_written(wide: Program, start: Start, tmp_path: Path) -> None:
    program = wide
    ck = tmp_path / "ck"
    with traindbg.attach(program.pid) as job:
        job.checkpoint(str(ck))
        older = good(ck).step
        words = [*CLI, str(program.pid), str(ck), "--overwrite"]
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: being_written(ck))
        client.send_signal(signal.SIGKILL)
        client.wait(10)
        (name,) = unfinished(ck)
        with pytest.raises(UsageError, match="never finished"):
            checkpoints.verify(tmp_path / name)
        with pytest.raises(ActionRefused, match="another checkpoint of this process is under way"):
            job.checkpoint(str(tmp_path / "other"))
        wait_until(lambda: unfinished(ck) == [])
        assert good(ck).step == older
        job.checkpoint(str(ck), overwrite=True)
        assert good(ck).step > older  # type: ignore[operator]
    unwatched(start, program, *WIDE)


def test_a_rank_is_killed_while_it_writes(start: Start, free_port: str, tmp_path: Path) -> None:
    words = ["--width", "300000", "--sleep", "0.05"]
    program = start("sharded.py", *words, command=[*TWO_RANKS, free_port], timeout_s=90)
    ck = tmp_path / "ck"
    with all_ranks(program) as job:
        job.checkpoint(str(ck))
        step = good(ck).step

        def kill(written: int, total: int) -> None:
            if written > 0:
                with contextlib.suppress(ProcessLookupError):  # it is told of more than once
                    os.kill(job.ranks[0].pid, signal.SIGKILL)

        with pytest.raises(TraindbgError) as failed:
            checkpoint.save(job._links, str(ck), overwrite=True, progress=kill)
        assert failed.value.cause.startswith("rank 0: ")
        assert str(job.ranks[0].pid) in failed.value.cause
        assert "what was there before is as it was" in failed.value.next_step
    good(ck, step=step)


@contextlib.contextmanager
def all_ranks(program: Program) -> Iterator[Job]:
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        assert len(job.ranks) == 2
        yield job


# --- where it is written ---------------------------------------------------------------------------------------------------


def test_a_full_disk_and_a_read_only_one_in_a_container(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has mounts of its own, as in a container: from here its files are reached through /proc."""
    full, read_only = tmp_path / "full", tmp_path / "read-only"
    env = {"FULL": str(full), "READ_ONLY": str(read_only)}
    for place in (full, read_only):
        place.mkdir()
    wrap = ["sh", str(Path(__file__).parents[1] / "programs" / "in_own_mounts.sh")]
    tried = subprocess.run([*wrap, "true"], check=False, capture_output=True, env={**os.environ, **env})
    need("the right to mount (root, CAP_SYS_ADMIN)", tried.returncode == 0)
    program = start("train.py", *WIDE, "--sleep", "0.1", command=[*wrap, sys.executable, "-u"], env=env)
    ck, here = full / "ck", Path(f"/proc/{program.pid}/root{full}/ck")
    with traindbg.attach(program.pid) as job:
        result = job.checkpoint(str(ck))
        assert str(here) in result.notes[0]
        assert list(full.iterdir()) == [], "nothing on our side of the mount"
        step = good(here).step
        with pytest.raises(ActionRefused, match=r"no space left on .*full: needed 1\d\.\d+ MB, free"):
            job.checkpoint(str(ck), overwrite=True)
        with monkeypatch.context() as patch:  # somebody else fills the disk after it was looked at
            patch.setattr(ranks.Survey, "bytes", 0)
            with pytest.raises(ActionRefused, match="rank 0 could not write: no space left on") as failed:
                job.checkpoint(str(ck), overwrite=True)
        assert "what was there before is as it was" in failed.value.next_step
        assert good(here).step == step
        with pytest.raises(ActionRefused, match=r"cannot write in .*read-only: read-only file system"):
            job.checkpoint(str(read_only / "ck"))
        monkeypatch.chdir(full)
        with pytest.raises(ActionRefused, match="absolute path, as the job sees it"):
            job.checkpoint("ck2")
    unwatched(start, program, *WIDE)


# --- what is on the disk afterwards ------------------------------------------------------------------------------------------


class Evil:
    """Unpickled by torch or pickle, it makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.trace),)


def test_a_flipped_bit_is_found_and_a_malicious_pickle_is_not_obeyed(wide: Program, tmp_path: Path) -> None:
    ck, trace = tmp_path / "ck", tmp_path / "was-here"
    with traindbg.attach(wide.pid) as job:
        job.checkpoint(str(ck))
    assert command("--verify", str(ck)).returncode == 0
    for name in sorted(p.name for p in ck.iterdir()):
        copy = tmp_path / f"flipped-{name}"
        shutil.copytree(ck, copy)
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 4
        (copy / name).write_bytes(content)
        with contextlib.suppress(TraindbgError):  # a manifest that is no JSON any more
            assert [f.code for f in checkpoints.verify(copy).findings] == ["checkpoint_damaged"]
            continue
        assert name == "manifest.json"
    said = command("--verify", str(tmp_path / "flipped-model.pt"))
    assert said.returncode == 1
    assert "model.pt" in said.stdout
    evil = pickle.dumps({"model": Evil(trace)})
    (tmp_path / "evil.pt").write_bytes(evil)
    with pytest.raises(UnsafeCheckpoint):
        checkpoints.inspect(tmp_path / "evil.pt")
    (ck / "training.pt").write_bytes(evil)
    with pytest.raises(TraindbgError):
        traindbg.resume(str(ck))
    refused = command("--inspect", str(tmp_path / "evil.pt"))
    assert refused.returncode == 3
    assert "nothing of it was executed" in refused.stderr or "refused" in refused.stderr
    assert not trace.exists()
    pickle.loads(evil)
    assert trace.exists(), "and it would have been obeyed"
