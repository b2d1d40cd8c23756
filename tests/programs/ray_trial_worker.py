"""Workers that a preflight starts one of: a good one, one that declares what it needs, and those that do not come up."""

import asyncio
import threading

import ray


class Plain:
    """No actor yet: whoever uses it wraps it."""

    def __init__(self, megabytes=0, fails=False, hangs=False):
        self.table = bytearray(megabytes << 20)
        if fails:
            raise RuntimeError("no engine for this machine")  # FAILS
        if hangs:
            threading.Event().wait()  # HANGS

    def run(self, rounds=1):
        return sum(i * i for i in range(rounds * 1000))

    async def later(self):
        await asyncio.sleep(0)
        return 1


@ray.remote(num_cpus=1, resources={"extra": 1})
class Declared:
    def run(self):
        return 1


NOT_A_CLASS = 7
