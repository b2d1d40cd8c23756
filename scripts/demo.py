"""`make demo`: a training that knows nothing of us runs as a process of its own, and a notebook attaches to it.

Opens JupyterLab on notebooks/00-attach.ipynb; with --headless, runs that notebook here instead and prints what its cells found. The
training and all its children are gone when this ends, also after Ctrl-C. Its log and pid are in .demo/.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
NOTEBOOK = REPO / "notebooks" / "00-attach.ipynb"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CELL_LIMIT_S = 300
LAB_LIMIT_S = 10.0
LAB_MINUTES, HEADLESS_MINUTES = 480.0, 20.0
"""The training ends by itself after so long, should this process be killed so hard that it cannot stop it."""

sys.path.insert(0, str(NOTEBOOK.parent))
import demo_process  # noqa: E402 - it lives beside the notebook, which uses it too


def main() -> int:
    parser = argparse.ArgumentParser(description="attach from a notebook to a training that runs already")
    parser.add_argument("--headless", action="store_true", help="run the notebook here, print what it found, and exit")
    headless = parser.parse_args().headless
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        with only_one(), training(HEADLESS_MINUTES if headless else LAB_MINUTES) as pid:
            print(f"-- the training is process {pid}; its log: {demo_process.LOG}", flush=True)
            environment = {**os.environ, "TRAINDBG_DEMO_PID": str(pid), "JUPYTER_PREFER_ENV_PATH": "1"}
            return run_notebook(environment) if headless else open_lab(environment)
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of this checkout's demo."""
    demo_process.STATE.mkdir(mode=0o700, exist_ok=True)
    with (demo_process.STATE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another `make demo` runs in this checkout; stop it first")
        demo_process.stop_leftover()
        yield


@contextlib.contextmanager
def training(minutes: float) -> Iterator[int]:
    """The pid of a running training, which is stopped however this ends."""
    print("-- starting the training", flush=True)
    process = demo_process.start(minutes)
    try:
        yield process.pid
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave the training behind
        demo_process.stop(process)
        print("-- the training is stopped", flush=True)


def open_lab(environment: dict[str, str]) -> int:
    """JupyterLab on the notebook, until it is closed or Ctrl-C."""
    command = [
        *(sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={REPO}", "--ServerApp.ip=127.0.0.1"),
        f"--LabApp.default_url=/lab/tree/{NOTEBOOK.relative_to(REPO)}",  # where a browser cannot be opened, the URL says it all
        "--ServerApp.answer_yes=True",
        *(["--ServerApp.allow_root=True"] if os.geteuid() == 0 else []),
    ]
    lab = subprocess.Popen(command, env=environment, cwd=REPO)
    try:
        return lab.wait()
    except KeyboardInterrupt:  # the terminal sent it to JupyterLab as well
        return 0
    finally:
        lab.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            lab.wait(LAB_LIMIT_S)
        lab.kill()
        lab.wait()


def run_notebook(environment: dict[str, str]) -> int:
    """Execute the notebook from start to end in this environment's kernel; print each cell and what came of it."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    os.environ.update(environment)
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]

    def show(cell: Any, **reply: Any) -> None:
        print("\n".join(f">>> {line}" for line in cell.source.splitlines()))
        print(*map(as_text, cell.outputs), sep="\n", end="\n\n", flush=True)

    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        on_cell_executed=lambda cell, cell_index, execute_reply: show(cell),
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(COLOURS.sub("", str(error)), file=sys.stderr)
        return 1
    finally:
        nbformat.write(notebook, demo_process.STATE / "00-attach.executed.ipynb")  # type: ignore[no-untyped-call]
    return 0


def as_text(output: Any) -> str:
    """What a cell's output looks like at a terminal."""
    return COLOURS.sub("", str(output.get("text") or output.get("data", {}).get("text/plain") or "")).rstrip()


if __name__ == "__main__":
    sys.exit(main())
