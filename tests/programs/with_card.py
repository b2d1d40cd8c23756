"""A process without torch that answers at a meeting place as an agent does. Prints ``ready`` once it can be reached."""

import os
import socket
import time

from jupyter_traindbg.agent import rendezvous


def main():
    place = rendezvous.create(os.getpid(), os.getuid())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(place, rendezvous.SOCKET))
        listener.listen(16)
        rendezvous.publish(place, rendezvous.new_token(), "0")
        print("ready", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
