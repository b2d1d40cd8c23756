"""Slices of a domain exchange their edges, with tags by which meshes of several refinements are told apart. One rank refines its own."""

import torch
import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "collective_mismatch", "ranks": "culprit", "where": ("finish",), "worlds": (4, 6)}
FIELDS = ("pressure", "velocity")


class Edges:
    """The edges of a field that are under way."""

    def __init__(self, works):
        self.works = works

    def finish(self):
        for name in sorted(self.works):
            self.works[name].wait()  # HERE


class Slice:
    def __init__(self, rank, world):
        self.neighbours = {"before": (rank - 1) % world, "after": (rank + 1) % world}
        self.level = 0

    def refine(self):
        self.level += 1

    def tag(self, field):
        return 10 * self.level + FIELDS.index(field)

    def exchange(self, field, edge):
        works = {}
        for side, neighbour in self.neighbours.items():
            works[f"recv-{side}"] = dist.irecv(torch.empty_like(edge), src=neighbour, tag=self.tag(field))
            works[f"send-{side}"] = dist.isend(edge, dst=neighbour, tag=self.tag(field))
        return Edges(works)


def main():
    run = Run()
    mine = Slice(run.rank, run.world)
    for step in range(1_000_000):
        if run.trouble(step):
            mine.refine()
        under_way = {field: mine.exchange(field, torch.ones(4)) for field in FIELDS}
        for edges in under_way.values():
            edges.finish()


if __name__ == "__main__":
    main()
