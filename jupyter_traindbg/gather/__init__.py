"""Timed looks at processes, of all ranks at once: `whole_job` takes everything that can be known of a job, `stacks` the stacks of one rank,
`beside` what is seen from outside alone. Evidence, no verdict.
"""
