"""Each rank writes its row into one SQLite database. On one the statement behind it fails; that is caught, and the transaction stays
open. The others wait for its lock as long as they have been told to.
"""

import os
import sqlite3
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "lock_wait",
    "ranks": "culprit",
    "where": "main",
    "says": r"Rank \d+ holds the lock of \S+/rows\.db, for which .* at not_committed\.py:\d+ write",
}


def write(database, rank, step, fails):
    database.execute("INSERT INTO rows VALUES (?, ?)", (rank, step))
    if fails:
        database.execute("INSERT INTO raws VALUES (?, ?)", (rank, step))
    database.commit()


def main():
    run = Run()
    model, optimizer = run.model()
    path = [None]
    with run.folder() as folder:
        path[0] = os.path.join(folder, "rows.db")
        dist.broadcast_object_list(path)
        database = sqlite3.connect(path[0], timeout=3600)
        if run.rank == 0:
            database.execute("CREATE TABLE rows (rank INTEGER, step INTEGER)")
        dist.barrier()
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            fails = run.trouble(step)
            time.sleep(0 if fails else 0.3 * (step == run.step))  # the others come to it later
            try:
                write(database, run.rank, step, fails)
            except sqlite3.Error as error:
                print(f"rank {run.rank}: {error}", flush=True)
            dist.barrier()  # HERE


if __name__ == "__main__":
    main()
