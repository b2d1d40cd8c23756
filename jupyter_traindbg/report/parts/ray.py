"""Of a job on Ray: its workers, those in trouble first, the nodes that it runs on, and who could not be looked at."""

from __future__ import annotations

from ...model import RayWorkers
from ..context import Context, Part, Unavailable

TITLE = "Ray"
ORDER = 18
FROM_JOB = True
AFTER = "diagnosis"
ASKS = "ray workers"


def collect(context: Context) -> Part:
    found = context.ask(ASKS)
    if not isinstance(found, RayWorkers):
        raise Unavailable("the cluster said nothing of its workers")
    workers, nodes = found.workers, [node for node in found.nodes if node.alive]
    troubled = [worker for worker in workers if worker.trouble]
    words = f"{len(workers)} worker{'s' * (len(workers) != 1)} on {len(nodes)} node{'s' * (len(nodes) != 1)}"
    return Part(
        f"{words}, {len(troubled)} in trouble; Ray {found.ray_version}",
        results=[found],
        issue=[f"{worker.who}: {worker.words}" for worker in troubled][:16],
        missing=[f"pid {one.pid}: {one.reason}" for one in found.silent],
    )
