"""A process that knows nothing of torch."""

import time


def work():
    print("ready", flush=True)
    while True:
        time.sleep(0.05)


work()
