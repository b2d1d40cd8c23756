"""The way to the nodes of a Ray cluster: run our own functions there, through a helper actor, or right here where a node is this machine.

    this process --pipe--> broker (a child process, the only one of ours that joins the cluster) --Ray--> helper (an actor on the node)

Nothing here imports ray but what runs in those two. `jupyter_traindbg.attach.ray.hosts` is what the rest of the package uses.
"""
