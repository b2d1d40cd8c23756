"""Its only thread waits once in a C call, named on the command line. Prints ``ready``, then the call's result and errno.

The calls would show an interruption as a result of -1, or change errno. Each lasts about 1.5 s.
"""

import ctypes
import os
import select
import socket
import struct
import sys

UNTOUCHED = 77


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    quiet, other = socket.socketpair()
    quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 500_000))
    events = select.epoll()
    span = struct.pack("ll", 1, 500_000_000)
    buffer = ctypes.create_string_buffer(64)
    calls = {
        "epoll_wait": lambda: libc.epoll_wait(events.fileno(), buffer, 1, 1500),
        "poll": lambda: libc.poll(None, 0, 1500),
        "nanosleep": lambda: libc.nanosleep(span, None),
        "recv": lambda: libc.recv(quiet.fileno(), buffer, 64, 0),
    }
    ctypes.set_errno(UNTOUCHED)
    print("ready", flush=True)
    result = calls[sys.argv[1]]()
    print("result", result, "errno", ctypes.get_errno(), flush=True)
    del other
    os._exit(0)


if __name__ == "__main__":
    main()
