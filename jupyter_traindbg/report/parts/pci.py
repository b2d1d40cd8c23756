"""Access Control Services of the PCI bridges: where they redirect, GPUs cannot talk to each other directly and NCCL hangs or crawls.

Reads the extended configuration space of each bridge (the kernel shows it to root only). The registers are those of the PCI Express Base
Specification, "ACS Extended Capability"; that they matter is said in NCCL's guide under troubleshooting,
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context, Part, Unavailable

if TYPE_CHECKING:
    from ...render.blocks import Block, Inline

TITLE = "PCI access control (ACS)"
ORDER = 80
FROM_JOB = False
AFTER = ""
DEVICES = Path("/sys/bus/pci/devices")
_ACS = 0x000D
_FLAGS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
_REDIRECTS = 0b0001_1100


def collect(context: Context) -> Part:
    bridges = [d for d in sorted(DEVICES.glob("*")) if _is_bridge(d)] if DEVICES.is_dir() else []
    if not bridges:
        raise Unavailable("no PCI bridge is to be seen here")
    registers = {d.name: acs_control((d / "config").read_bytes()) for d in bridges}
    if all(len((d / "config").read_bytes()) <= 256 for d in bridges):
        raise Unavailable(
            "the kernel shows the bridges' extended configuration to root only: `sudo lspci -vvv | grep ACSCtl`"
        )
    known = {name: control for name, control in registers.items() if control is not None}
    redirecting = [name for name, control in known.items() if control & _REDIRECTS]
    return Part(
        f"{len(redirecting)} of {len(known)} bridges redirect traffic between devices",
        data={"acs_control": {name: flags(control) for name, control in known.items()}},
    )


def draw(data: Mapping[str, Any]) -> list[Block]:
    """One row a bridge."""
    from ...render.blocks import Column, Table

    columns = [Column("bridge"), Column("ACS control", wrap=True)]
    rows: list[list[Inline]] = [[name, control] for name, control in data["acs_control"].items()]
    return [Table("Bridges that have ACS", columns, rows, 8, "bridges")] if rows else []


def _is_bridge(device: Path) -> bool:
    try:
        return (device / "class").read_text().startswith("0x0604")
    except OSError:
        return False


def acs_control(config: bytes) -> int | None:
    """The ACS control register in a configuration space; None where the device has none, or only 256 bytes of it may be read."""
    at, seen = 0x100, set()
    while 0x100 <= at <= len(config) - 8 and at not in seen:
        seen.add(at)
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _ACS:
            (control,) = struct.unpack_from("<H", config, at + 6)
            return int(control)
        at = header >> 20
    return None


def flags(control: int) -> str:
    """``SrcValid+ TransBlk- ...``, as lspci writes it."""
    return " ".join(f"{name}{'+' if control >> bit & 1 else '-'}" for bit, name in enumerate(_FLAGS))
