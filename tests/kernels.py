"""Real Jupyter kernels for tests: started as processes, given cells as a notebook gives them, with their outputs collected."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import REPO, need

OLD_VENV = REPO / ".venv-ipykernel6"
OLD_REQUIREMENTS = ["ipykernel==6.*", "matplotlib"]
TRAINING = f"""
import sys
sys.path.append({sysconfig.get_path("platlib")!r})
import time, torch
torch.manual_seed(0)
def train(steps):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.5)
    for step in range(steps):
        x = torch.randn(32, 8)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step(); scheduler.step()
        if step == 5: print("training", flush=True)
        time.sleep(0.005)
    return loss.item().hex()
"""
"""``print(train(600))`` in a cell. An old kernel's environment has no torch: it borrows the one of this environment, last on its path."""


def _old_python() -> Path | None:
    """The interpreter of a venv with ipykernel 6, made once and kept; None where it cannot be made."""
    python, made = OLD_VENV / "bin" / "python", OLD_VENV / "made-for-tests"
    if made.exists() and made.read_text() == " ".join(OLD_REQUIREMENTS):
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", str(OLD_VENV)], check=True, capture_output=True, timeout=120)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *OLD_REQUIREMENTS]
        subprocess.run(pip, check=True, capture_output=True, timeout=600)
    except (subprocess.SubprocessError, OSError):
        return None
    made.write_text(" ".join(OLD_REQUIREMENTS))
    return python


@pytest.fixture(scope="session")
def ipykernel6_python() -> str:
    python = _old_python()
    need("a venv with ipykernel 6 (pip could not make one)", python is not None)
    return str(python)


class Cell:
    """A cell that is running: `outputs` are the iopub messages that belong to it, in order."""

    def __init__(self, kernel: Kernel, msg_id: str) -> None:
        self.kernel, self.msg_id = kernel, msg_id

    @property
    def outputs(self) -> list[dict[str, Any]]:
        self.kernel.drain()
        return [m for m in self.kernel.published if m["parent_header"].get("msg_id") == self.msg_id]

    def text(self, stream: str = "stdout") -> str:
        parts = [m["content"] for m in self.outputs if m["msg_type"] == "stream"]
        return "".join(p["text"] for p in parts if p["name"] == stream)

    def error(self) -> str | None:
        names = [m["content"]["ename"] for m in self.outputs if m["msg_type"] == "error"]
        return names[0] if names else None

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        self.kernel.until(lambda: text in self.text(), f"{text!r} printed; so far: {self.text()!r}", timeout_s)

    def finish(self, timeout_s: float = 60) -> dict[str, Any]:
        """The content of the cell's reply, once it is there and the cell is idle."""
        reply: dict[str, Any] = self.kernel.reply(self.msg_id, timeout_s)
        self.kernel.until(
            lambda: any(m["msg_type"] == "status" and m["content"]["execution_state"] == "idle" for m in self.outputs),
            "idle",
            timeout_s,
        )
        return reply


class Kernel:
    """A kernel process and the notebook that is connected to it."""

    def __init__(self, python: str, directory: Path, name: str, env: Mapping[str, str] | None = None) -> None:
        from jupyter_client.blocking import BlockingKernelClient
        from jupyter_client.connect import write_connection_file

        self.file = str(directory / f"kernel-{name}.json")
        write_connection_file(self.file, key=os.urandom(16).hex().encode())
        self.log = directory / f"kernel-{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", "ipykernel_launcher", "-f", self.file],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                env=os.environ
                | {"IPYTHONDIR": str(directory / "ipython"), "MPLCONFIGDIR": str(directory / "mpl")}
                | dict(env or {}),
                start_new_session=True,
            )
        self.client = BlockingKernelClient()
        self.published: list[dict[str, Any]] = []
        self.replies: dict[str, dict[str, Any]] = {}
        try:
            self.client.load_connection_file(self.file)
            self.client.start_channels()
            self._wait_until_ready(60)
        except BaseException:
            self.close()  # nobody else can: the fixture never gets to see this kernel
            raise

    def _wait_until_ready(self, timeout_s: float) -> None:
        """The client takes a heartbeat that is a second late for a kernel that has died."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.client.wait_for_ready(timeout=timeout_s)
            except RuntimeError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, code: str, *, allow_stdin: bool = True) -> Cell:
        """Start `code` as a notebook cell and come straight back."""
        return Cell(self, self.client.execute(code, allow_stdin=allow_stdin))

    def value(self, code: str) -> str:
        """Run a cell that prints, to its end; what it printed."""
        cell = self.run(code)
        reply = cell.finish()
        assert reply["status"] == "ok", reply
        return cell.text()

    def control(self, kind: str, **content: Any) -> dict[str, Any]:
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                content_back: dict[str, Any] = reply["content"]
                return content_back

    def interrupt(self) -> None:
        self.control("interrupt_request")

    def answer_input(self, text: str, timeout_s: float = 30) -> None:
        """Wait for the kernel to ask for input, and give `text`."""
        self.client.get_stdin_msg(timeout=timeout_s)
        self.client.input(text)

    def drain(self) -> None:
        while self.client.iopub_channel.msg_ready():
            self.published.append(self.client.get_iopub_msg(timeout=1))

    def reply(self, msg_id: str, timeout_s: float) -> dict[str, Any]:
        def come() -> bool:
            while self.client.shell_channel.msg_ready():
                message = self.client.get_shell_msg(timeout=1)
                self.replies[message["parent_header"]["msg_id"]] = message["content"]
            return msg_id in self.replies

        self.until(come, "the cell's reply", timeout_s)
        return self.replies[msg_id]

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {timeout_s} s: {what}\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.01)

    def wrong_key_file(self) -> str:
        """A copy of the connection file with another key."""
        content = json.loads(Path(self.file).read_text())
        path = Path(self.file).with_name("kernel-wrong.json")
        path.write_text(json.dumps({**content, "key": "not-the-key"}))
        return str(path)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(10)

    def close(self) -> None:
        self.kill()
        self.client.stop_channels()
        self.client.context.destroy(linger=0)


@pytest.fixture(params=[7, 6], ids=["ipykernel7", "ipykernel6"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel]:
    """A fresh kernel of each generation of ipykernel."""
    python = sys.executable if request.param == 7 else request.getfixturevalue("ipykernel6_python")
    # A name of its own: kernels are also found by command line, and somebody else may be running these tests too.
    made = Kernel(python, tmp_path, f"{uuid.uuid4().hex}-{request.param}")
    yield made
    made.close()
