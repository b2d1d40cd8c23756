"""What the kernel said that concerns a training job: GPUs (Xid, NVRM), processes killed for want of memory, segmentation faults, disks."""

from __future__ import annotations

import re

from ...outside import kernel_log
from ..context import Context, Part, Unavailable

TITLE = "Kernel log"
ORDER = 75
FROM_JOB = False
AFTER = ""
MOST = 200
_INTERESTING = re.compile(
    r"NVRM|Xid|nvidia|amdgpu|[Oo]ut of memory|[Kk]illed process|oom|segfault|traps:|general protection|I/O error|nfs:|not responding"
    r"|PCIe Bus Error|AER|mlx5|hung_task|blocked for more than|Machine check|MCE|EXT4-fs error|XFS"
)


def collect(context: Context) -> Part:
    messages = kernel_log.read()
    if messages is None:
        raise Unavailable("it is closed to this user: `sudo dmesg` shows it")
    lines = [
        f"[{at:12.3f}] {line}"
        for at, line in messages
        if _INTERESTING.search(line) and "oom_score_adj name" not in line
    ]
    kept = lines[-MOST:]
    texts = {"kernel.txt": "\n".join(kept) + "\n"} if kept else {}
    return Part(
        f"{len(lines)} of {len(messages)} lines have to do with GPUs, memory, crashes or disks",
        texts=texts,
        excerpts={"the last of them": kept[-15:]} if kept else {},
    )
