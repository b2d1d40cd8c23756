"""Among three hundred thousand objects that a program has there is one list that grows."""

from training import Training


class Node:
    def __init__(self, number):
        self.number = number
        self.links = [number, number + 1]
        self.about = {"name": str(number), "tags": []}


def main():
    training = Training()
    nodes = {f"group {n}": [Node(48 * n + m) for m in range(48)] for n in range(1800)}
    groups = [list(nodes.values())[n : n + 40] for n in range(0, 1800, 40)]
    seen = []
    while training.goes_on:
        x, y = training.batch(128)
        training.step(training.loss(x, y))
        seen.append(x)  # leaks
        groups[0][0][0].number += 1


main()
