"""The probe ``variables`` in a bare interpreter: a thread that waits in a function, and what is told of it. Prints one line of JSON.

Usage: variable_scenes.py PACKAGE, the directory above the agent's.
"""

import argparse
import json
import queue
import sys
import threading
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from agent.probes import variables

LIMIT = 3


class Engine:
    def __init__(self):
        self.args = argparse.Namespace(micro=4)

    @property
    def trap(self):
        raise AssertionError("a property is called")


class Agent:
    class safepoints:
        thread_id = None


def wait(there, release):
    engine, pending, items = Engine(), {"uid-17"}, queue.Queue(LIMIT)
    there.set()
    release.wait(60)
    return engine, pending, items


def main():
    there, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait, args=(there, release), daemon=True)
    thread.start()
    there.wait(30)
    Agent.safepoints.thread_id = thread.ident
    row = variables.run(Agent)["frames"][0]
    release.set()
    told = dict(row["variables"])
    line = Path(__file__).read_text().splitlines()[row["line"] - 1]
    print(
        json.dumps(
            {
                "function": row["function"],
                "line": line.strip(),
                "reach": None if row["reach"] is None else line[row["reach"][1] : row["reach"][3]],
                "engine": told["engine"]["of"][0][1]["of"],
                "pending": told["pending"]["of"],
                "items": [told["items"][k] for k in ("is", "size", "most")],
                "release": told["release"]["set"],
                "globals": dict(row["globals"]).get("LIMIT"),
            }
        )
    )


if __name__ == "__main__":
    main()
