"""Prints ``free``, and on SIGUSR1 ``held``, and keeps the GIL in a C call until somebody writes to the FIFO that is named on the command
line (for ever without one); then it prints ``released``.
"""

import ctypes
import os
import select
import signal
import struct
import sys
import threading
import time

told = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: told.set())
fifo = os.open(sys.argv[1], os.O_RDWR) if len(sys.argv) > 1 else os.pipe()[0]
holding = ctypes.PyDLL(None)  # PyDLL, unlike CDLL, does not release the GIL
print("free", flush=True)
while not told.wait(0.02):
    pass
sys.setswitchinterval(1e6)  # nobody gets the GIL between the word and the call
holding.write(1, b"held\n", 5)
holding.poll(struct.pack("ihh", fifo, select.POLLIN, 0), 1, -1)
sys.setswitchinterval(0.005)
print("released", flush=True)
while True:
    time.sleep(0.05)
