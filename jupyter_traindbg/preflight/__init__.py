"""What is looked at before a distributed job is started, or while it does not come up: would its processes find each other, and have what
they need?

`network` looks names and ports up, `machine` looks at this machine, `all_reduce` tries the backend for real among local processes,
`config` reads the configuration of a job, `worker_trial` times a worker of a Ray cluster. Everything that waits does so at the same time,
and none longer than the deadline. Nothing is left behind: connections are closed at once, the processes of the all_reduce are ended.
"""
