"""Jobs on Apache Spark that read and write topics (needs `pip install 'barnabas[spark]'`)."""

SUBCOMMANDS = {
    "list": "list the jobs",
    "run": "run a job in this process",
    "jars": "fetch Spark's connectors once, for use without a network",
    "submit": "run a job by spark-submit, on a cluster",
}
EXAMPLES = """
  barnabas spark jars
  barnabas spark list
  barnabas spark run windows --help
  barnabas spark run windows -t clicks --checkpoint /tmp/windows --to console
"""
