"""One thread that computes in pure Python and never waits. Prints ``ready`` first."""

print("ready", flush=True)
while True:
    sum(range(1000))
