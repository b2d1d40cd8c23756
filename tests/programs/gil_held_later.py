"""Prints ``free``, and on SIGUSR1 ``held``, keeps the GIL for N seconds (default 3) in a C call, and prints ``released``."""

import ctypes
import os
import signal
import sys
import threading
import time

told = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: told.set())
print("free", flush=True)
while not told.wait(0.02):
    pass
os.write(1, b"held\n")
ctypes.PyDLL(None).sleep(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
print("released", flush=True)
while True:
    time.sleep(0.05)
