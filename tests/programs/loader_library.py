"""A dataset that is all a library's code, one of whose files never comes: ``loader_library.py START_METHOD FOLDER``. Prints ``ready``.

The library is ``FOLDER/site-packages/faces``, and the file a pipe, by its name alone, in the current directory: FOLDER.
"""

import os
import sys

from torch.utils.data import DataLoader


def main(method, folder):
    from faces import Faces

    os.chdir(folder)
    loader = DataLoader(Faces(bad="face-0007.jpg"), batch_size=1, num_workers=3, multiprocessing_context=method)
    batches = iter(loader)
    for _ in range(7):
        next(batches)
    print("ready", flush=True)
    next(batches)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(sys.argv[2], "site-packages"))
    main(*sys.argv[1:])
