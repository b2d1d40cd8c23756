"""Counts queued real-time signals, N of them, by the byte that each leaves in a pipe; then prints ``all N``. Prints ``ready`` first."""

import os
import signal
import sys
import time


def main():
    wanted = int(sys.argv[1])
    inbox, outbox = os.pipe()
    os.set_blocking(outbox, False)
    signal.signal(signal.SIGRTMIN, lambda number, frame: None)
    signal.set_wakeup_fd(outbox)
    print("ready", flush=True)
    seen = 0
    while seen < wanted:
        seen += len(os.read(inbox, 65536))
    time.sleep(0.3)
    os.write(outbox, b"-")  # so that reading ends also where no signal came twice
    print(f"all {seen + len(os.read(inbox, 65536)) - 1}", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
