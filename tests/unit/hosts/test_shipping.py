"""What a helper brings to its node and how it is asked, without one. Its process: tests/integration/test_ray_helper.py."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

from support import REPO

from jupyter_traindbg.hosts import shipping, wire


def test_the_archive_has_what_the_parts_need_and_stays_small() -> None:
    names = zipfile.ZipFile(io.BytesIO(shipping.archive())).namelist()
    assert {
        "jupyter_traindbg/spread/part.py",
        "jupyter_traindbg/agent/server.py",
        "jupyter_traindbg/native/boot.so",
    } <= set(names)
    assert not [name for name in names if "/render/" in name or "/magics/" in name]
    assert len(shipping.archive()) < 3_000_000


def test_what_runs_on_a_node_needs_nothing_installed_there(tmp_path: Path) -> None:
    """A cluster has Ray and its own things; of ours only what was shipped. Python's own library must do."""
    with zipfile.ZipFile(io.BytesIO(shipping.archive())) as z:
        z.extractall(tmp_path)
    modules = [
        "spread.part",
        "outside.standing",
        "outside.stacks",
        "attach.asking",
        "gather",
        "actions.tuning",
        "actions.checkpoint",
        "report",
    ]
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + "".join(
        f"import jupyter_traindbg.{m}\n" for m in modules
    )
    program += "jupyter_traindbg.report.running.machine_readers()\n"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, timeout=60, cwd=REPO)


def test_requests_are_careful_on_both_sides() -> None:
    assert wire.loads(wire.serve(wire.request("jupyter_traindbg.spread.part:host", (), {})))[0] is True
