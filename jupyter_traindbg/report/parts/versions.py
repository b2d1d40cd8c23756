"""Every package that the trainee can import, from its own site-packages without running it; torch's CUDA and NCCL, the driver."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...outside import host, procfs
from ..context import Context, Part

if TYPE_CHECKING:
    from ...render.blocks import Block

TITLE = "Versions"
ORDER = 51
FROM_JOB = False
AFTER = ""
_IMPORTANT = (
    "torch",
    "torchvision",
    "transformers",
    "accelerate",
    "deepspeed",
    "lightning",
    "pytorch-lightning",
    "ray",
    "vllm",
    "sglang",
    "verl",
    "trl",
    "peft",
    "megatron-core",
    "flash-attn",
    "xformers",
    "bitsandbytes",
    "datasets",
    "safetensors",
    "tokenizers",
    "triton",
    "numpy",
    "jax",
    "tensorflow",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cudnn-cu12",
    "hydra-core",
    "omegaconf",
    "wandb",
    "openrlhf",
    "apex",
    "transformer-engine",
    "liger-kernel",
    "jupyter-traindbg",
)
_FOLDER = re.compile(rb"(/[^\n]*/(?:site|dist)-packages)/")


def collect(context: Context) -> Part:
    missing = []
    facts = host.facts(list(context.readable.values()), deadline_s=context.left_s(3.0))
    versions = dict(facts.versions)
    folders = list(dict.fromkeys(folder for pid in context.readable.values() for folder in _folders(pid)))
    if folders:
        whose = "of the job's own environment"
    else:
        folders, whose = [path for path in sys.path if path], "of the environment that the report was made in"
        missing.append(
            "the job's own packages: there is no process of it to look at; these are of the environment that made the report"
        )
        versions.setdefault("Python", sys.version.split()[0])
    packages = _packages(folders)
    said = ", ".join(f"{name} {version}" for name, version in _shown(versions, packages).items())
    return Part(
        f"{len(packages)} packages {whose}",
        texts={"packages.txt": f"# {whose}\n" + "".join(f"{n}=={v}\n" for n, v in sorted(packages.items()))},
        data={"versions": versions, "packages": packages, "whose": whose},
        issue=[f"Versions: {said}"],
        missing=missing,
    )


def draw(data: Mapping[str, Any]) -> list[Block]:
    """Those that matter."""
    from ...render.blocks import Pair, Pairs

    shown = _shown(data["versions"], data["packages"])
    return [Pairs([Pair(name, [version]) for name, version in shown.items()])]


def _shown(versions: Mapping[str, str], packages: Mapping[str, str]) -> dict[str, str]:
    important = {name: packages[name] for name in _IMPORTANT if name in packages and name not in versions}
    return {**versions, **important}


def _folders(pid: int) -> Iterator[str]:
    """Where the packages of process `pid` lie, by what it has loaded and by its interpreter, as seen from here."""
    root = _root(pid)
    yield from (root + os.fsdecode(m) for m in dict.fromkeys(_FOLDER.findall(procfs.mapped(pid))))
    words = procfs.command(pid)
    for program in (words[0] if words else "", _link(f"/proc/{pid}/exe")):
        if os.path.isabs(program):
            lib = Path(root + os.path.dirname(os.path.dirname(program))) / "lib"
            yield from (str(folder) for folder in sorted(lib.glob("python3*/site-packages")))


def _root(pid: int) -> str:
    """Nothing where the process has the same mounts as we: a path through /proc would be one more thing that can end."""
    return "" if _link(f"/proc/{pid}/ns/mnt") == _link("/proc/self/ns/mnt") else f"/proc/{pid}/root"


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _packages(folders: list[str]) -> dict[str, str]:
    """Version by name; of a package that is there twice, the first as Python would find it."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=folders):
        metadata = distribution.metadata
        if "Name" in metadata and "Version" in metadata:  # a half-installed package has neither
            found.setdefault(re.sub(r"[-_.]+", "-", metadata["Name"]).lower(), metadata["Version"])
    return found
