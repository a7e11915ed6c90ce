"""The program behind `barnabas log`: dump, verify and repair the files of a data directory.

`barnabas/commands/log/` parses the command line and starts this program with the options as one JSON object;
`storage/inspection/` does the work; this package prints the results.
"""
