"""Gloo ranks that save a sharded model from their agents' threads while the last rank sleeps, then load it again.

save DIR: three steps; then every rank but the last one stands in a collective, and the last one sleeps in the middle of its forward pass.
Their agents plan, and write, through files in DIR, led by rank 0's agent; DIR/reference.pt gets the full tensors. load DIR: load
DIR/ck with torch.distributed.checkpoint into a model of this number of ranks, then into one of rank 0 alone, compare with
DIR/reference.pt, and make it one file, DIR/full.pt. Both print ``done``.
--mesh 2d: replicate x shard (HSDP).
"""

import argparse
import json
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from jupyter_traindbg import agent as agents

PATIENCE_S = 60


class Stop(nn.Module):
    """A place in the middle of the model where a rank can hang."""

    hang = False

    def forward(self, x):
        if self.hang:
            Stop.reached.set()
            if dist.get_rank() == dist.get_world_size() - 1:
                time.sleep(PATIENCE_S)
            else:
                dist.all_reduce(torch.ones(1))
        return x

    reached = threading.Event()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(7, 5)
        self.norm = nn.BatchNorm1d(5)
        self.tiny = nn.Linear(5, 1)  # one row: nothing of it on the second rank
        self.stop = Stop()
        self.frozen = nn.Linear(1, 3).requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.stop(self.tiny(self.norm(self.first(x)))))


def build(args):
    torch.manual_seed(0)
    model, shape = Net(), (dist.get_world_size(),)
    if args.mesh == "2d":
        shape = (2, dist.get_world_size() // 2)
    mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("r", "s")[-len(shape) :])
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    return model, optimizer


def step(model, optimizer, seed):
    torch.manual_seed(seed)
    loss = model(torch.randn(4, 7)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def flat(model, optimizer):
    names = {id(p): n for n, p in model.named_parameters()}
    state = {f"model.{n}": t for n, t in model.state_dict().items()}
    for p, own in optimizer.state.items():
        state.update({f"optimizer.state.{names[id(p)]}.{k}": v for k, v in own.items()})
    return state


def exchange(directory, what, mine=None, wait_for=()):
    """Put `mine` as this rank's `what`, return those of `wait_for`."""
    rank = dist.get_rank()
    if mine is not None:
        path = os.path.join(directory, f"{what}-{rank}.json")
        with open(path + ".new", "w") as f:
            json.dump(mine, f)
        os.rename(path + ".new", path)
    got = {}
    for other in wait_for:
        path = os.path.join(directory, f"{what}-{other}.json")
        ends = time.monotonic() + PATIENCE_S
        while not os.path.exists(path):
            if time.monotonic() > ends:
                raise TimeoutError(path)
            time.sleep(0.01)
        with open(path) as f:
            got[str(other)] = json.load(f)
    return got


def write(agent, directory):
    """What the clients' threads do."""
    rank, ranks = dist.get_rank(), range(dist.get_world_size())

    def ask(do, **params):
        return json.loads(json.dumps(agent.call("checkpoint", {"do": do, "ident": "x", **params})))

    target = os.path.join(directory, "ck")
    if rank == 0:
        ask("begin", directory=target, bytes=1 << 20)
    exchange(directory, "begun", rank if rank == 0 else None, [0])
    ask("take", directory=target, weights=rank == 0)
    plans = exchange(directory, "plan", ask("plan")["plan"], ranks if rank == 0 else ())
    final = exchange(directory, "final", ask("merge", plans=plans) if rank == 0 else None, [0])["0"]["plans"]
    ask("write", plan=final[str(rank)])
    while not ask("progress")["done"]:
        time.sleep(0.01)
    answers = exchange(directory, "progress", ask("progress"), ranks if rank == 0 else ())
    if rank == 0:
        assert all(a["error"] is None for a in answers.values()), answers
        files = {name: f for a in answers.values() for name, f in a["files"].items()}
        ask("commit", manifest={}, files=files, results={r: a["results"] for r, a in answers.items()})
        print("done", flush=True)


def save(args, agent):
    model, optimizer = build(args)
    for i in range(3):
        step(model, optimizer, i)
    reference = {name: full(t) for name, t in flat(model, optimizer).items()}
    if dist.get_rank() == 0:
        torch.save(reference, os.path.join(args.directory, "reference.pt"))
    survey = agent.call("checkpoint", {"do": "survey"})
    assert survey["kind"] == "sharded", survey
    assert survey["unsupported"] is None, survey
    Stop.hang = True
    failed = []

    def watch():
        Stop.reached.wait(PATIENCE_S)
        try:
            write(agent, args.directory)
        except BaseException as e:
            failed.append(e)
            print(f"failed: {e!r}", flush=True)
        finally:
            exchange(args.directory, "end", not failed, range(dist.get_world_size()))
            os._exit(1 if failed else 0)

    threading.Thread(target=watch, daemon=True).start()
    step(model, optimizer, 3)


def load(args):
    import torch.distributed.checkpoint as dcp
    import torch.distributed.checkpoint.format_utils

    model, optimizer = build(args)
    step(model, optimizer, 99)
    state = flat(model, optimizer)
    dcp.load({**state, "optimizer.param_groups": None}, checkpoint_id=os.path.join(args.directory, "ck"))
    reference = torch.load(os.path.join(args.directory, "reference.pt"), weights_only=True)
    got = {name: full(t) for name, t in state.items()}
    if dist.get_rank() == 0:
        begun = ("running_mean", "running_var", "num_batches_tracked")  # the forward pass that hangs has updated them
        different = [n for n, t in got.items() if not n.endswith(begun) and not torch.equal(t, reference[n])]
        assert got.keys() == reference.keys()
        assert different == [], different
        if dist.get_world_size() == 1:
            dcp.format_utils.dcp_to_torch_save(
                os.path.join(args.directory, "ck"), os.path.join(args.directory, "full.pt")
            )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("do", choices=["save", "load"])
    p.add_argument("directory")
    p.add_argument("--mesh", default="1d")
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if args.do == "save":
        own = os.path.join(args.directory, f"agent-{dist.get_rank()}")
        os.mkdir(own, 0o700)
        save(args, agents.start(own, keep=True))
        return
    rank = dist.get_rank()
    load(args)
    dist.destroy_process_group()
    if rank == 0:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        load(args)
        dist.destroy_process_group()
        print("done", flush=True)


if __name__ == "__main__":
    main()
