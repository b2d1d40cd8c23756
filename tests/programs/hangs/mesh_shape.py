"""One rank makes a device mesh of another shape: its groups have other members, and the others wait for it in the making of theirs."""

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "collective_order", "ranks": "culprit", "where": "make_mesh", "worlds": (4, 6)}


def make_mesh(shape):
    return dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            two = run.world // 2
            make_mesh((run.world, 1) if run.trouble(step) else (two, 2))
            dist.barrier()


if __name__ == "__main__":
    main()
