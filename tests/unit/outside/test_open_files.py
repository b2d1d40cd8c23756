"""What mounts have written, from tables that are played here: a disk, an NFS server, and what tells nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_traindbg.outside import open_files
from jupyter_traindbg.outside.open_files import _Mounts

MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:51 / /mnt/ckpt rw,relatime shared:9 - nfs4 store:/ckpt rw,vers=4.2
41 27 0:52 / /mnt/other rw - nfs store:/other rw
42 27 0:99 / /layers rw - overlay overlay rw
"""
STATS = """\
device /dev/vda mounted on / with fstype ext4
device store:/other mounted on /mnt/other with fstype nfs statvers=1.1
\topts:\trw
\tbytes:\t1 2 3 4 5 600 7 8
device store:/ckpt mounted on /mnt/ckpt with fstype nfs4 statvers=1.1
\tage:\t10
\tbytes:\t10 20 30 40 50 7000 70 80
"""


@pytest.fixture
def mounts(tmp_path: Path) -> _Mounts:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    (tmp_path / "mountstats").write_text(STATS)
    return _Mounts(str(tmp_path))


def test_each_nfs_mount_has_its_own_count(mounts: _Mounts) -> None:
    assert (mounts.written_bytes("40"), mounts.written_bytes("41")) == (7000, 600)


def test_what_tells_nothing_is_not_known(mounts: _Mounts, tmp_path: Path) -> None:
    assert mounts.written_bytes("42") is None
    assert mounts.written_bytes("7") is None
    assert mounts.written_bytes("") is None
    assert _Mounts(str(tmp_path / "gone")).written_bytes("27") is None


def test_what_this_process_writes_reaches_its_disk(tmp_path: Path) -> None:
    """Where the directory is on a disk that the kernel counts; on an overlay or in memory it is not known, and said so."""
    path = str(tmp_path / "kept")
    with open(path, "wb", buffering=0) as file:
        before = open_files.read(os.getpid())
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
        (seen,) = (f for f in open_files.between(before, open_files.read(os.getpid())) if f.path == path)
    assert (seen.mode, seen.moved) == ("write", 1 << 20)
    assert seen.to_disk is None or seen.to_disk >= 1 << 20


def test_a_process_that_is_gone_has_no_files() -> None:
    assert open_files.read(2**22 + 1) == {}
