"""Another program listens at the job's port, as one that was left behind does. Rank 0 cannot, and ends; the others ask a stranger."""

import os
import socket
import subprocess
import sys
import time

import torch.distributed as dist
from parts import LIFE_S, Run

EXPECTED = {
    "code": "init_incomplete",
    "ranks": [0],
    "where": "main",
    "state": ("stuck", "failed"),
    "launcher": "reaping",
}
LEFTOVER = f"""
import socket, sys, time
s = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
time.sleep({LIFE_S})
"""


def leave_one_behind(port):
    """A child of a child, so that it is nobody's of this job's."""
    command = [sys.executable, "-c", LEFTOVER, str(port)]
    started = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdout=sys.stderr)"
    subprocess.run([sys.executable, "-c", started, *command], check=True)


def wait_for(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)


def main():
    run = Run(culprit=0, group=False)
    port = int(os.environ["MASTER_PORT"])
    if run.is_culprit:
        leave_one_behind(port)
    wait_for(port)
    run.ready(2.0)
    dist.init_process_group("gloo")  # HERE


if __name__ == "__main__":
    main()
