"""Two threads that compute in Python without a pause: one of them always waits for the GIL, for milliseconds. Prints ``ready`` first."""

import threading


def compute():
    number = 0
    while True:
        number = (number + 7) & 255


threading.Thread(target=compute, daemon=True).start()
print("ready", flush=True)
compute()
