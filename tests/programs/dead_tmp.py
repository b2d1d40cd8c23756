"""``dead_tmp.py RANK FLAG PROGRAM ARGS...``: PROGRAM of this folder; once FLAG exists, rank RANK has a /tmp of its own that never answers.

As of a file server that is gone: a FUSE file system that nobody serves. Who reads a path there waits in the kernel until he is killed or
this process ends. Needs root and /dev/fuse. The rank prints ``its /tmp is dead``.
"""

import ctypes
import os
import runpy
import sys
import threading
import time
from pathlib import Path

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 1 << 14, 1 << 18


def done(status):
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def die(libc, flag):
    while not flag.exists():
        time.sleep(0.01)
    fd = os.open("/dev/fuse", os.O_RDWR)  # kept open: its end would end the mount
    done(libc.mount(b"dead", b"/tmp", b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()))
    print("its /tmp is dead", flush=True)


def main():
    rank, flag, program, *args = sys.argv[1:]
    sys.argv = [program, *args]
    if os.environ["RANK"] == rank:
        libc = ctypes.CDLL(None, use_errno=True)
        done(libc.unshare(CLONE_NEWNS))
        done(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        threading.Thread(target=die, args=(libc, Path(flag)), daemon=True).start()
    runpy.run_path(str(Path(__file__).with_name(program)), run_name="__main__")


if __name__ == "__main__":
    main()
