"""Where agents and clients meet: agents come and go at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jupyter_traindbg.agent import rendezvous

COME_AND_GO = """
import os, sys
from jupyter_traindbg.agent import rendezvous
for _ in range(1000):
    rendezvous.remove(rendezvous.create(os.getpid(), os.getuid(), root=sys.argv[1]))
"""


def test_an_agent_may_come_while_the_last_one_leaves(tmp_path: Path) -> None:
    """Who leaves as the last one removes the directory that all agents of a user share."""
    (tmp_path / "tmp").mkdir()
    agents = [subprocess.Popen([sys.executable, "-c", COME_AND_GO, str(tmp_path)]) for _ in range(3)]
    assert [agent.wait(60) for agent in agents] == [0, 0, 0]
    assert os.listdir(tmp_path / "tmp") == []
    path = rendezvous.create(os.getpid(), os.getuid(), root=str(tmp_path))
    assert os.stat(path).st_mode & 0o777 == 0o700
