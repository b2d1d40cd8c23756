"""What is told of a job's environment, beside what PyTorch does with it."""

from __future__ import annotations

import subprocess
import sys

from environ_evidence import job, judged


def test_values_that_we_call_fatal_are(free_port: str) -> None:
    """What PyTorch does with them, at the same time in two processes."""
    code = "import torch.distributed as d; d.init_process_group('gloo', rank=0, world_size=1); print('it works')"
    settings = [("TORCH_DISTRIBUTED_DEBUG", "1"), ("GLOO_SOCKET_IFNAME", "nosuch0")]
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port, "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env={**environ, name: value}, stdout=-1, stderr=-2, text=True)
        for name, value in settings
    ]
    for process, (name, value) in zip(running, settings, strict=True):
        said, _ = process.communicate(timeout=60)
        assert process.returncode != 0, said
        assert "it works" not in said
        found = judged(job(**{name: value}), interfaces={0: ["lo"], 1: ["lo"]})
        assert found[0].severity == "critical"
        assert name in found[0].title
