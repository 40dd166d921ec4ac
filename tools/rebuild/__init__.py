"""Read models and indexes made anew from the log, held against those that are there, and put in their place."""
