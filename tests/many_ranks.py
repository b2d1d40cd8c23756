"""Jobs of any number of ranks with one odd one: for the tests of verdicts, and for benchmarks/bounds.py."""

from __future__ import annotations

import dataclasses

from environ_evidence import job
from flight_dumps import Recorder
from hang_evidence import stuck, user, waiting
from pace_evidence import BATCHES, BEHIND, EPOCHS, FILE, IN_EPOCH, standing, times

from jupyter_traindbg.agent import flight
from jupyter_traindbg.model import JobEvidence, RankCollectives, RankEvidence, Wait
from jupyter_traindbg.outside.flightrec.build import rank_collectives


def hang(ranks: int, odd: int) -> JobEvidence:
    """All wait in an all_reduce but `odd`, which sleeps."""
    sleeping = stuck(odd, user(61, "wait_for_quota"), Wait("sleep"))
    every = tuple(_numbered(sleeping if n == odd else waiting(0), n) for n in range(ranks))
    return JobEvidence("torchrun:1", every, ranks)


def _numbered(one: RankEvidence, number: int) -> RankEvidence:
    looks = tuple(
        dataclasses.replace(look, processes=tuple(dataclasses.replace(p, pid=number + 1) for p in look.processes[:1]))
        for look in one.looks
    )
    return dataclasses.replace(one, rank=number, pid=number + 1, looks=looks)


def unequal(ranks: int, odd: int) -> JobEvidence:
    """All are in the loop over the batches but `odd`, which has left it."""
    every = tuple(standing(n, BEHIND if n == odd else IN_EPOCH) for n in range(ranks))
    return JobEvidence("torchrun:1", every, ranks, blocks={FILE: (EPOCHS, BATCHES)})


def issued(ranks: int, odd: int) -> dict[int, dict[int, float]]:
    """When each rank issued each of 20 calls; `odd` takes three times as long."""
    return times(lambda rank, _: 0.030 if rank == odd else 0.010, ranks=ranks, rounds=20)


def collectives(ranks: int, odd: int) -> list[RankCollectives]:
    """All have issued an all_reduce that `odd` has not."""
    made = []
    for waits in (True, False):
        recorder = Recorder("nccl", {"0": ("default_pg", range(ranks))}).call("all_reduce", times=20)
        recorder = recorder.call("all_reduce", done=False) if waits else recorder
        summary = flight.summary([recorder.dump()], place=lambda frames: frames)
        newest_s = max(entry["time_created_ns"] for entry in recorder.entries) / 1e9
        made.append(rank_collectives(0, 0, {**summary, "now_s": newest_s + 60.0}, source="dump"))
    waiting_, late = made
    return [dataclasses.replace(late if n == odd else waiting_, rank=n) for n in range(ranks)]


def environ(ranks: int, odd: int) -> dict[int, dict[str, str]]:
    """What torchrun gives to `ranks` processes of one machine, with some settings, and one more for `odd`."""
    settings = {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "mlx5", "NCCL_TIMEOUT": "9"}
    return job(ranks, odd, **settings, TORCH_DISTRIBUTED_DEBUG_odd="DETAIL")
