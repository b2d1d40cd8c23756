"""A writer of summaries whose thread has ended: what is put into its queue stays there."""

import queue
import threading

import torch
from task import Classifier, Pace, arguments, loader


class Writer:
    def __init__(self):
        self.queue = queue.Queue()
        self.thread = threading.Thread(target=self._first_only, daemon=True)
        self.thread.start()

    def _first_only(self):
        self.queue.get()

    def histogram(self, name, values, step):
        self.queue.put((name, values.detach().clone(), step))  # leaks


WRITER = Writer()


def train():
    args = arguments()
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = Pace(args.steps)
    step = 0
    while True:
        for x, y in loader():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            WRITER.histogram("in_proj", model.encoder.layers[0].self_attn.in_proj_weight, step)
            if pace(loss.detach()):
                return


train()
