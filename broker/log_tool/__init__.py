"""`barnabas log`: what is in the files of a data directory, what is wrong with them, and what makes them right.

The user's side (`barnabas/commands/log/`) reads the command line and starts this program with what it has read, as one
JSON object; `storage/inspection/` does the work; here is what is printed.
"""
