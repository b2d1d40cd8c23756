"""What is asked where no job runs, or none is needed: of logs, of dumps, of this machine before a start, of what a launcher left."""
