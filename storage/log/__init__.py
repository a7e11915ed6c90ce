"""One replica's log: its segments, indexes, producers and leader epochs, and how it is loaded and recovered."""
