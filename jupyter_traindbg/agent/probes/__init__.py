"""One file per measurement: a module with ``run(agent, **params)``, which answers JSON-ready data, and ``COST``, its price in words."""
