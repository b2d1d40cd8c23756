"""What runs on the hosts of a job needs the standard library alone: here under a Python that has no other package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support import REPO, need

WATCHED = "import time\nwhile True:\n    time.sleep(0.01)\n"
ASKS = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from jupyter_traindbg.gather.slow import Asked
from jupyter_traindbg.spread import found, part

watched = subprocess.Popen([sys.argv[2], sys.argv[3]], env={"RANK": "0", "WORLD_SIZE": "1", "API_KEY": "Qx7pQ2rT9w"})
try:
    roster = part.Roster("a key", "here", (part.Member(watched.pid, 0, 1, "", True),))
    said = {rank.pid == watched.pid: rank.agent for rank in part.enter(roster, 10.0)}
    known = part.gather(roster, 10.0)
    looks = {
        "questions.environ:of_host": (5.0,),
        "questions.memory:sizes": (5.0,),
        "questions.memory:grown": (False, False, 2.0),
        "gather.slow:gather": (Asked(2, 0.5, 6.0),),
    }
    seen = {name: type(part.look(roster, f"jupyter_traindbg.{name}", *words)).__name__ for name, words in looks.items()}
    asked = {name: len(part.ask(roster, name).processes) for name in ("stacks", "threads")}
    listed = [member.pid for job in found.jobs(str(watched.pid), 5.0, ()) for member in job.members] == [watched.pid]
    part.close(roster.key)
    files = [str(getattr(module, "__file__", "")) for module in sys.modules.values()]
    others = [file for file in files if "site-packages" in file]
    told = {"agent": said[True], "ranks": len(known.ranks), "seen": seen, "asked": asked, "listed": listed, "others": others}
    print(json.dumps(told))
finally:
    watched.kill()
    watched.wait()
"""


def test_every_look_works_without_a_single_package(tmp_path: Path) -> None:
    bare = f"{sys.base_prefix}/bin/python3"
    need("a Python beside this environment's", os.access(bare, os.X_OK))
    program = tmp_path / "watched.py"
    program.write_text(WATCHED)
    done = subprocess.run(
        [bare, "-I", "-S", "-c", ASKS, REPO, bare, str(program)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},  # py-spy comes along with the helper
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {
        "agent": True,
        "ranks": 1,
        "seen": {
            "questions.environ:of_host": "OnHost",
            "questions.memory:sizes": "SizesOfHost",
            "questions.memory:grown": "dict",
            "gather.slow:gather": "Window",
        },
        "asked": {"stacks": 1, "threads": 1},
        "listed": True,
        "others": [],
    }
