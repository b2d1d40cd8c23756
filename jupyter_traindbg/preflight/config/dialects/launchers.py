"""torchrun, the deepspeed launcher and Slurm: how many processes, and where they meet."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "launcher",
    marks=("torchrun.", "deepspeed_launcher.", "slurm."),
    keys={
        "torchrun.nnodes": "nodes",
        "torchrun.nproc_per_node": "processes_per_node",
        "torchrun.master_addr": "master_address",
        "torchrun.master_port": "master_port",
        "deepspeed_launcher.num_nodes": "nodes",
        "deepspeed_launcher.num_gpus": "processes_per_node",
        "deepspeed_launcher.master_addr": "master_address",
        "deepspeed_launcher.master_port": "master_port",
        "slurm.nodes": "nodes",
        "slurm.ntasks_per_node": "processes_per_node",
    },
    source="https://docs.pytorch.org/docs/stable/elastic/run.html",
)
