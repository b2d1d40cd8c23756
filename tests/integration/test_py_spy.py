"""py-spy, asked of several processes at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stand_ins import THREAD, Put, for_py_spy
from support import Start

from jupyter_traindbg.model import Wait
from jupyter_traindbg.outside import stacks


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    return for_py_spy(tmp_path, monkeypatch)


def test_a_childs_failure_does_not_cost_the_others(py_spy: Put, start: Start) -> None:
    good = json.dumps([THREAD])
    target = start("hung_loader.py")
    py_spy(f"case \"$*\" in *\" {target.pid}\") echo '{good}';; *) echo 'Error: torn' >&2; exit 1;; esac")
    first, *workers = stacks.dump(target.pid)
    assert first.threads[0].frames
    assert [w.role for w in workers] == ["DataLoader worker"] * 2
    for worker in workers:
        assert "torn" in worker.note
        assert worker.threads[0].frames == ()
    assert {w.threads[0].waiting_for for w in workers} == {Wait("sleep"), Wait("network", "poll")}


def test_py_spy_is_found_by_many_threads_at_once_in_a_fresh_interpreter() -> None:
    """Python 3.11's sysconfig is not safe against that; asking for several ranks does it."""
    program = (
        "import sys; sys.setswitchinterval(1e-6)\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from jupyter_traindbg.outside.stacks import py_spy\n"
        "with ThreadPoolExecutor(16) as pool: print(len({f.result() for f in [pool.submit(py_spy) for _ in range(64)]}))"
    )
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
        assert (done.stdout, done.stderr) == ("1\n", "")
