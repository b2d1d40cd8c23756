"""Rank 0 alone draws what it has seen, pixel by pixel, in a logger's method; all others wait for it in backward."""

import torch
from small import RANK, SLOW, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "straggler", "ranks": [2], "rank": 0, "part": "rest"}


class ImageLogger:
    def log_batch(self, images):
        for image in images[:48]:
            self._draw(image.tolist())

    def _draw(self, pixels):
        rows = []
        for at in range(0, len(pixels), 16):
            rows.append("".join("#" if pixel > 0 else " " for pixel in pixels[at : at + 16] * 8))  # the slow line
        return "\n".join(rows)


class Loop:
    def __init__(self):
        self.net = parallel(network(4))
        self.opt = torch.optim.SGD(self.net.parameters(), 1e-3)
        self.logger = ImageLogger() if RANK == 0 and SLOW else None

    def advance(self, images, labels):
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if self.logger is not None:
            self.logger.log_batch(images)
        return loss.item()


def main():
    loop, clock = Loop(), Clock()
    for images, labels in batches():
        clock(loop.advance(images, labels))


main()
