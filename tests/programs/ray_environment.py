"""An actor whose runtime_env takes as long to build as the file FOLDER/slow is there.

Prints ``PACKAGE`` with what has to be installed, READY when the actor has been asked for, and BUILT when it is up. --on RESOURCE: where.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ray

SETUP = """
import pathlib, time
from setuptools import setup
while pathlib.Path({slow!r}).exists():
    time.sleep(0.1)
setup(name="slow-engine", version="1.0", py_modules=["slow_engine"])
"""


@ray.remote(num_cpus=0)
class Player:
    def play(self) -> str:
        import slow_engine

        return str(slow_engine.NAME)


def package(folder: Path) -> Path:
    made = folder / "engine"
    made.mkdir()
    (made / "setup.py").write_text(SETUP.format(slow=str(folder / "slow")))
    (made / "slow_engine.py").write_text("NAME = 'go9x9'\n")
    return made


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=Path)
    p.add_argument("--on", default=None)
    args = p.parse_args()
    ray.init(log_to_driver=False)
    made = package(args.folder)
    print("PACKAGE", made, flush=True)
    pip = {
        "packages": [str(made)],
        "pip_install_options": ["--no-build-isolation", "--no-deps", "--no-index"],
    }
    where = {args.on: 0.1} if args.on else {}
    player = Player.options(runtime_env={"pip": pip}, resources=where).remote()
    playing = player.play.remote()
    print("READY", flush=True)
    print("BUILT", ray.get(playing), flush=True)


if __name__ == "__main__":
    main()
