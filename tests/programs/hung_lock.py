"""Hung on a lock that it holds itself; a second thread sleeps. Prints ``ready`` once it hangs."""

import threading
import time


def wait_for_ever(lock):
    with lock:
        pass


def idle():
    time.sleep(0.2)
    print("ready", flush=True)
    time.sleep(600)


def main():
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=idle, name="idler", daemon=True).start()
    wait_for_ever(lock)


if __name__ == "__main__":
    main()
