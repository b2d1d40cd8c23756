"""One actor or task in every state that a look can find, by name. Prints ``READY`` once those that can be up are.

huge (infeasible), big (waits for what holder has), dies (in ``__init__``), killed, works, asks (waits for works), rests, wants an argument
(its ``__init__`` has an argument that is not there); the tasks during (runs) and after (waits for its result).
"""

import time
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Actor:
    def __init__(self, *_):
        pass

    def up(self):
        return True

    def work(self):
        time.sleep(3600)  # BUSY

    def ask(self, other):
        return ray.get(other.work.remote())  # ASKS


@ray.remote(num_cpus=0)
class Dies:
    def __init__(self):
        Path("/no/model.pt").read_bytes()  # DIES


@ray.remote(num_cpus=0)
def during():
    time.sleep(3600)  # DURING


@ray.remote(num_cpus=0)
def after(_):
    return None


def main():
    ray.init(log_to_driver=False)
    cpus = max(node["Resources"].get("CPU", 0) for node in ray.nodes())
    up = {name: Actor.options(name=name).remote() for name in ("killed", "works", "asks", "rests")}
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    up["holder"] = Actor.options(name="holder", num_cpus=1, scheduling_strategy=here).remote()
    huge = Actor.options(name="huge", num_cpus=64 * cpus).remote()
    dies = Dies.options(name="dies").remote()
    ray.get([actor.up.remote() for actor in up.values()])
    big = Actor.options(name="big", num_cpus=cpus).remote()
    ray.kill(up["killed"])
    first = during.remote()
    kept = [
        after.remote(first),
        Actor.options(name="wants an argument").remote(first),
        up["asks"].ask.remote(up["works"]),
    ]
    print("READY", flush=True)
    time.sleep(3600)
    del kept, huge, big, dies  # an actor without a handle is ended


if __name__ == "__main__":
    main()
