"""Asks the disks of a host in a process of its own: a call on a file system that does not answer never returns, and cannot be interrupted.

Run by `jupyter_traindbg.outside.host` as ``python -I -S host_helper.py QUESTION...``; it imports nothing of the package. A question is
``space:DIRECTORY`` or ``torch:DIRECTORY`` (torch's package). Each is announced, and answered where that is possible, with one JSON list:

    ["asks", QUESTION]                        no further line of this question means that it hung there
    ["space", DIRECTORY, FREE_BYTES, BYTES]   free is 0 where there is no inode left
    ["version", NAME, TEXT]
"""

from __future__ import annotations

import json
import os
import re
import sys

VERSION = re.compile(r"^(__version__|cuda|hip)\b[^=]*= *'([^']+)'", re.MULTILINE)
NCCL = re.compile(r"nvidia_nccl_cu\d+-(.+)\.dist-info")


def say(*words: object) -> None:
    """One line, written whole: the reader may kill us at any moment."""
    os.write(1, json.dumps(words).encode() + b"\n")


def space(directory: str) -> None:
    seen = os.statvfs(directory)
    no_inode_left = seen.f_files > 0 and seen.f_favail == 0
    say("space", directory, 0 if no_inode_left else seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize)


def torch(package: str) -> None:
    with open(os.path.join(package, "version.py"), encoding="utf-8") as f:
        for name, version in VERSION.findall(f.read()):
            say("version", {"__version__": "torch", "cuda": "CUDA", "hip": "HIP"}[name], version)
    for entry in os.listdir(os.path.dirname(package)):
        if found := NCCL.fullmatch(entry):
            say("version", "NCCL", found.group(1))


def main(questions: list[str]) -> None:
    for question in questions:
        kind, _, directory = question.partition(":")
        say("asks", question)
        try:
            {"space": space, "torch": torch}[kind](directory)
        except OSError:
            continue  # it is not there, or closed to us: that question has no answer


if __name__ == "__main__":
    main(sys.argv[1:])
