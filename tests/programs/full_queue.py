"""Fills CPython's queue of pending calls from inside one such call and computes there for some seconds.

Prints ``ready`` when it is full and ``through`` when it has been emptied.
"""

import ctypes
import time
import zlib

BLOCK = bytes(1 << 16)
PENDING = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


@PENDING
def nothing(argument):
    return 0


@PENDING
def fill(argument):
    while ctypes.pythonapi.Py_AddPendingCall(nothing, None) == 0:
        pass
    print("ready", flush=True)
    ends = time.monotonic() + 2
    while time.monotonic() < ends:
        zlib.crc32(BLOCK)
    return 0


ctypes.pythonapi.Py_AddPendingCall(fill, None)
print("through", flush=True)
while True:
    zlib.crc32(BLOCK)
