"""An IterableDataset whose generator parses lines of CSV in Python; two workers share the work."""

import csv
import io

import torch
from small import SLOW, WIDTH, Clock, network
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

MANIFEST = {"code": "data_wait", "ranks": [1]}
TABLE = "\n".join(",".join(str(row * column % 97) for column in range(120)) for row in range(60))


class Lines(IterableDataset):
    def _rows(self):
        for row in csv.reader(io.StringIO(TABLE)):
            yield sum(float(cell) ** 0.5 for cell in row)  # the slow line

    def __iter__(self):
        worker = get_worker_info()
        torch.manual_seed(worker.id)
        while True:
            features = torch.randn(WIDTH)
            if SLOW:
                features[0] = sum(self._rows())
            yield features, torch.randint(10, ())


model = network()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
clock = Clock()
for features, target in DataLoader(Lines(), batch_size=64, num_workers=2):
    optimizer.zero_grad()
    loss = criterion(model(features[:32]), target[:32])
    loss.backward()
    optimizer.step()
    clock(loss.item())
