"""One file for everything that a report collects (`jupyter_traindbg.report.running.Collector`); adding one is one new file."""
