"""Ray Train with two gloo workers. Each writes ``STEP LOSS LR`` to OUT/rank-N, the loss as exact hex, and at the end ``parameters SHA256``.

--out DIR; --steps N (0: for ever); --sleep S after each step; --lr-at STEP VALUE: from that step on this very code uses VALUE, as a live
change would; --alone: without Ray, the same two workers as plain processes. The driver prints ``READY`` after three steps of both, and
``DONE`` when the run has ended.
"""

import argparse
import hashlib
import os
import threading
import time
from pathlib import Path

os.environ.setdefault("RAY_TRAIN_ENABLE_STATE_TRACKING", "1")

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train_alone(rank, config, store):
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    train(config, DistributedDataParallel)
    dist.destroy_process_group()


def train(config, prepare=prepare_model):
    torch.set_num_threads(1)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = prepare(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(rank + 1)
    step = 0
    with Path(config["out"], f"rank-{rank}").open("w", buffering=1) as out:
        while not config["steps"] or step < config["steps"]:
            loss = model(torch.randn(4, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            step += 1
            if step == config["lr_at"][0]:
                optimizer.param_groups[0]["lr"] = config["lr_at"][1]
            optimizer.step()
            out.write(f"{step} {loss.item().hex()} {optimizer.param_groups[0]['lr']!r}\n")
            time.sleep(config["sleep"])  # PAUSE
        values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
        out.write(f"parameters {hashlib.sha256(values).hexdigest()}\n")


def watch(out):
    files = [Path(out, "rank-0"), Path(out, "rank-1")]
    while not all(f.exists() and f.read_text().count("\n") >= 3 for f in files):
        time.sleep(0.05)
    print("READY", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.02)
    p.add_argument("--lr-at", nargs=2, type=float, default=(-1, 0.0))
    p.add_argument("--alone", action="store_true")
    args = p.parse_args()
    if args.alone:
        torch.multiprocessing.spawn(train_alone, (vars(args), str(Path(args.out, "store"))), nprocs=2)
        return
    ray.init(log_to_driver=False)
    threading.Thread(target=watch, args=(args.out,), daemon=True).start()
    trainer = TorchTrainer(
        train,
        train_loop_config=vars(args),
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=ray.train.RunConfig(name="two", storage_path=str(Path(args.out, "results").resolve())),
    )
    trainer.fit()
    print("DONE", flush=True)


if __name__ == "__main__":
    main()
