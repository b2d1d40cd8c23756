"""Dumps of torch's flight recorder as NCCL and gloo write them (FlightRecorderDetail.hpp, version 2.10), for tests without a GPU."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Recorder", "write"]

DEFAULT = ("0", "default_pg")
BEGAN_NS = 1_790_000_000_000_000_000


class Recorder:
    """The recorder of one rank. ``groups``: name -> (description, global ranks). Calls are 10 ms apart."""

    def __init__(self, library: str = "nccl", groups: Mapping[str, tuple[str, Sequence[int]]] | None = None) -> None:
        self.library = library
        self.groups = groups or {}
        self.entries: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, bool], int] = {}

    def call(self, op: str, group: str = "0", *, times: int = 1, new_number: bool = True, **changes: Any) -> Recorder:
        """Record `op` (``"all_reduce"``, ``"send 0->1"``), `times` times; `changes` are fields of the entry, or ``done=False``."""
        for _ in range(times):
            self.entries.append(self._entry(op, group, new_number, dict(changes)))
        return self

    def _entry(self, op: str, group: str, new_number: bool, changes: dict[str, Any]) -> dict[str, Any]:
        p2p = op.split(maxsplit=1)[0] in ("send", "recv")
        number = self._numbers[group, p2p] = self._numbers.get((group, p2p), 0) + new_number
        record = len(self.entries)
        done = changes.pop("done", True)
        nccl = self.library != "gloo"
        created = BEGAN_NS + record * 10_000_000
        description = DEFAULT[1] if group == DEFAULT[0] else self.groups.get(group, ("undefined", ()))[0]
        sizes = [] if op == "barrier" else [[1000]]
        return {
            "record_id": record,
            "pg_id": list(self.groups).index(group) if group in self.groups else 0,
            "process_group": (group, description),
            "thread_name": "python",
            "thread_id": "139650467609472",
            "collective_seq_id": number if not p2p else self._numbers.get((group, False), 0),
            "p2p_seq_id": number if p2p else 0,
            "op_id": record + 1,
            "profiling_name": f"{self.library}:{op}",
            "time_created_ns": created,
            "input_sizes": sizes,
            "input_dtypes": ["Float"] * len(sizes),
            "output_sizes": sizes,
            "output_dtypes": ["Float"] * len(sizes),
            "state": "completed" if done and nccl else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": created + 1_000_000 if done and nccl else None,
            "retired": bool(done),
            "timeout_ms": 600_000,
            "is_p2p": p2p,
            **changes,
        }

    def dump(self, *, last: int | None = None, active: bool = False) -> dict[str, Any]:
        """What the library writes; of a recorder that holds only the `last` entries, or asked for the `active` ones alone."""
        named = {name: {"name": name, "desc": d, "ranks": str(list(r))} for name, (d, r) in self.groups.items()}
        gloo = {"": {"name": "", "desc": "", "ranks": "[]"}}
        return {
            "version": "2.10",
            "pg_config": gloo if self.library == "gloo" else named,
            "comm_lib_version": "" if self.library == "gloo" else "2.27.3",
            "pg_status": {str(i): self._status(i) for i in range(len(self.groups))} if active else {},
            "entries": [e for e in self.entries[-(last or 0) :] if not (active and e["retired"])],
        }

    def _status(self, pg_id: int) -> dict[str, int]:
        """torch gives the number of the last operation, of whichever kind."""
        own = [e for e in self.entries if e["pg_id"] == pg_id]
        numbers = [e["p2p_seq_id"] or e["collective_seq_id"] for e in own]
        done = [n for n, e in zip(numbers, own, strict=True) if e["retired"]]
        return {
            "last_enqueued_collective": numbers[-1] if numbers else -1,
            "last_started_collective": -1,
            "last_completed_collective": done[-1] if done else -1,
        }


def write(directory: Path, dumps: Iterable[tuple[int, dict[str, Any]]], *, as_json: bool = False) -> Path:
    """One file a rank, as torch names them."""
    directory.mkdir(exist_ok=True)
    for rank, dump in dumps:
        if as_json:
            (directory / f"rank_{rank}.json").write_text(json.dumps(dump))
        else:
            (directory / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    return directory
