"""What torch's profiler writes of each rank: read, summed up, and put into one Chrome trace of all ranks. Pure but for the file written."""
