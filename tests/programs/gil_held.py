"""A C call keeps the GIL for N seconds (default 600) while another thread wants it. Prints ``ready`` just before."""

import ctypes
import sys
import threading
import time


def tick():
    while True:
        time.sleep(0.005)


def hold(seconds):
    ctypes.PyDLL(None).sleep(seconds)  # PyDLL, unlike CDLL, does not release the GIL


def main():
    threading.Thread(target=tick, name="ticker", daemon=True).start()
    time.sleep(0.05)
    print("ready", flush=True)
    hold(int(sys.argv[1]) if len(sys.argv) > 1 else 600)


if __name__ == "__main__":
    main()
