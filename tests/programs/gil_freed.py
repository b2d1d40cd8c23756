"""A C call keeps the GIL for N seconds; afterwards the main thread sleeps. Prints ``ready`` just before."""

import ctypes
import sys
import time

print("ready", flush=True)
ctypes.PyDLL(None).sleep(int(sys.argv[1]))  # PyDLL, unlike CDLL, does not release the GIL
while True:
    time.sleep(60)
