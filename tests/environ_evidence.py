"""The environment of the ranks of a job, and what is told of it."""

from __future__ import annotations

from jupyter_traindbg.diagnose import environment
from jupyter_traindbg.model import Finding


def job(ranks: int = 2, odd: int = 1, **changes: str) -> dict[int, dict[str, str]]:
    """What torchrun gives to `ranks` processes of one machine; `changes` are for all, those with a name ending in ``_odd`` for one."""
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    common |= {
        "OMP_NUM_THREADS": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    common |= {
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(ranks),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    everybody = {name: value for name, value in changes.items() if not name.endswith("_odd")}
    environ = {
        r: {**common, "RANK": str(r), "LOCAL_RANK": str(r), "ROLE_RANK": str(r), **everybody} for r in range(ranks)
    }
    environ[odd] |= {name.removesuffix("_odd"): value for name, value in changes.items() if name.endswith("_odd")}
    return environ


def judged(environ: dict[int, dict[str, str]], backend: str | None = "nccl", **more: object) -> list[Finding]:
    return environment.findings(environ, backend=backend, versions={"torch": "2.13.0+cpu"}, **more)  # type: ignore[arg-type]
