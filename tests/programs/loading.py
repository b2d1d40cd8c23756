"""A thread is stuck in the dynamic loader: the object named on the command line waits in its constructor. Prints ``ready`` when it is.

The object is loaded with the GIL released, as a C extension would be by a library of its own.
"""

import ctypes
import sys
import threading
import time


def main():
    libc = ctypes.CDLL(None)
    libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.dlopen.restype = ctypes.c_void_p
    threading.Thread(target=libc.dlopen, args=(sys.argv[1].encode(), 2), daemon=True).start()
    time.sleep(0.3)
    print("ready", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
