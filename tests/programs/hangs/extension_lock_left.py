"""Every rank builds its small C++ extension in a directory of its own. In one of these an earlier build was killed and left torch's
lock file, which nobody will remove: that rank waits for it, the others at the barrier.
"""

import os
import signal
from pathlib import Path

import torch.distributed as dist
from parts import Run, train_step
from torch.utils import cpp_extension
from torch.utils.file_baton import FileBaton

EXPECTED = {
    "code": "lock_wait",
    "ranks": "culprit",
    "where": "setup",
    "says": (r"lock file /\S+/fused_norm/lock, which nobody here holds",),
}
SOURCE = 'extern "C" float fused_norm(const float* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += x[i] * x[i]; return s; }'


class Task:
    def __init__(self, run):
        self.run = run
        self.home = Path(os.environ["SCENE_FOLDER"]) / f"extensions-{run.rank}"
        self.build = self.home / "fused_norm"
        self.build.mkdir(parents=True)

    def interrupted(self):
        """What happened the last time that this was started here."""
        pid = os.fork()
        if pid == 0:
            FileBaton(str(self.build / "lock")).try_acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)

    def setup(self):
        source = self.home / "fused_norm.cpp"
        source.write_text(SOURCE)
        cpp_extension.load("fused_norm", [str(source)], build_directory=str(self.build), is_python_module=False)  # HERE


def main():
    run = Run(group=False)
    task = Task(run)
    if run.is_culprit:
        task.interrupted()
    dist.init_process_group("gloo")
    model, optimizer = run.model()
    run.ready(15.0)
    task.setup()
    dist.barrier()
    for batch in run.loader():
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
