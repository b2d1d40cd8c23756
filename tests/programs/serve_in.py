"""An agent in the directory given as the argument."""

import sys
import time

from jupyter_traindbg import agent

agent.start(sys.argv[1], keep=True)
print("ready", flush=True)
time.sleep(600)
