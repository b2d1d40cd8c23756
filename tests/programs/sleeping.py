"""One thread, no torch: prints ``ready`` and sleeps, for a minute a time."""

import time

print("ready", flush=True)
while True:
    time.sleep(60)
