"""Pilots learn to bring ferries into a harbour by playing: workers of Ray collect the trajectories. It knows nothing of jupyter-traindbg.

Two workers never deliver, by mistakes that people make. One keeps statistics in a second thread, which takes the same two locks in the other
order. One reads its opening book from a mount that does not answer. The log says "Collecting trajectories...", and nothing more.

A worker that fails costs nothing but its own time: what it was to play is handed to one that is free.
"""

import argparse
import random
import threading
import time
from pathlib import Path

import ray


class Harbour:
    """The game: currents push, the pilot steers. `charted`: a second thread draws how it goes."""

    def __init__(self, seed, charted):
        self.chance = random.Random(seed)
        self.tide, self.chart = threading.Lock(), threading.Lock()
        self.moves = 0
        if charted:
            threading.Thread(target=self.draw, name="charts", daemon=True).start()

    def move(self, position):
        with self.tide:
            position += self.chance.uniform(-1.0, 0.8)
            time.sleep(0.004)
            with self.chart:
                self.moves += 1
        return position

    def draw(self):
        while True:
            with self.chart:
                time.sleep(0.01)
                with self.tide:
                    self.drawn = self.moves
            time.sleep(0.01)


@ray.remote
class Pilot:
    def __init__(self, number, book, charted):
        self.opening = [float(word) for word in Path(book).read_text().split()]
        self.harbour = Harbour(number, charted)
        self.games = 0

    def play(self, games):
        trajectories = []
        for _ in range(games):
            positions = list(self.opening)
            while positions[-1] > 0:
                positions.append(self.harbour.move(positions[-1]))
            trajectories.append(positions)
            self.games += 1
        return trajectories


def write_books(folder, pilots):
    """An opening for each pilot: how far out it begins."""
    folder.mkdir()
    for number in range(pilots):
        (folder / f"book-{number}.txt").write_text("3.0 2.8 2.5\n")


def collect(pilots, games):
    """The games of all; those of a pilot that does not deliver are played by one that is free."""
    print("Collecting trajectories...", flush=True)
    playing = {pilot.play.remote(games): pilot for pilot in pilots}
    free, left, collected = [], 0, []
    while playing:
        ready, _ = ray.wait(list(playing), num_returns=1, timeout=300)
        for ref in ready:
            pilot = playing.pop(ref)
            try:
                collected += ray.get(ref)
            except ray.exceptions.RayError as error:
                print(f"a pilot did not deliver ({type(error).__name__}); who is free plays for it", flush=True)
                left += 1
                if isinstance(error, ray.exceptions.RayActorError):
                    continue  # it is gone
            free.append(pilot)
        while left and free:
            pilot = free.pop(0)
            playing[pilot.play.remote(games)] = pilot
            left -= 1
    return collected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("books", type=Path)
    parser.add_argument("--pilots", type=int, default=8)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--charted", type=int, default=5)
    words = parser.parse_args()

    ray.init(log_to_driver=False, logging_level="ERROR")
    books = [words.books / f"book-{number}.txt" for number in range(words.pilots)]
    pilots = [Pilot.remote(number, str(book), number == words.charted) for number, book in enumerate(books)]
    collected = collect(pilots, words.games)
    moves = sum(map(len, collected))
    print(f"collected {len(collected)} trajectories, {moves} moves; training on them", flush=True)


if __name__ == "__main__":
    main()
