"""A bus of events to which each step subscribes anew, with what it has computed."""

import torch
from task import Classifier, Pace, arguments, loader


class Bus:
    def __init__(self):
        self.subscribers = {}

    def subscribe(self, event, function):
        self.subscribers.setdefault(event, []).append(function)  # leaks

    def publish(self, event, *about):
        for function in self.subscribers.get(event, [])[-2:]:
            function(*about)


BUS = Bus()


def run(net, optimizer, pace):
    while True:
        for x, y in loader():
            logits = net(x)
            BUS.subscribe("step", lambda step, logits=logits: (step, logits))
            loss = torch.nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            BUS.publish("step", pace.done)
            if pace(loss.detach()):
                return


def main():
    args = arguments()
    net = Classifier()
    run(net, torch.optim.SGD(net.parameters(), lr=1e-2), Pace(args.steps))


main()
