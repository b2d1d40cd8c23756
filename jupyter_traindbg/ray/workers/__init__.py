"""What every worker of a Ray cluster does: from facts, stacks and agents' answers to rows. Pure functions, no I/O.

`naming` says how a worker is called, `states` what the cluster's own word tells of it (tier 0), `stacked` what its stacks add (tier 1),
`inside` what an agent in it adds (tier 2), `rows` puts them in order. `jupyter_traindbg.ray.report` gathers what these need.
"""
