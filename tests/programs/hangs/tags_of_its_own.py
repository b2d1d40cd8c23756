"""Slices of a domain exchange their edges, with tags by which meshes of several refinements are told apart. One rank refines its own."""

import torch
import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "collective_mismatch", "ranks": "culprit", "where": ("finish",), "worlds": (4, 6)}
SIDES = ("before", "after")


class Edges:
    """What is under way."""

    def __init__(self, works):
        self.works = works

    def finish(self):
        for name in sorted(self.works):
            self.works[name].wait()  # HERE


class Slice:
    def __init__(self, rank, world):
        self.neighbours = dict(zip(SIDES, ((rank - 1) % world, (rank + 1) % world), strict=True))
        self.level = 0

    def refine(self):
        self.level += 1

    def tag(self):
        return 10 * self.level + len(SIDES)

    def exchange(self, edge):
        works = {}
        for side, neighbour in self.neighbours.items():
            works[f"recv-{side}"] = dist.irecv(torch.empty_like(edge), src=neighbour, tag=self.tag())
            works[f"send-{side}"] = dist.isend(edge, dst=neighbour, tag=self.tag())
        return Edges(works)


def main():
    run = Run()
    mine = Slice(run.rank, run.world)
    for step in range(1_000_000):
        if run.trouble(step):
            mine.refine()
        edges = mine.exchange(torch.ones(4))
        edges.finish()


if __name__ == "__main__":
    main()
