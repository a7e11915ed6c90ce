"""Java and Spark for small data: a few thousand records on two cores are not worth a compiled query or 200 partitions.

The options are those of SPARK_SUBMIT_OPTS, which reach every Spark that is started with that variable: the session of
the tests, jobs as processes, and the commands of pages. `--spark-conf` and a session's own settings precede them.

Without Hadoop's native library, Java runs a program (`chmod`, `stat`, `readlink`) for each of most operations on a
file: about a hundred for a micro-batch. FileContext, by which Spark writes checkpoints, needs three times as many as
FileSystem. `make prove` lets Spark compile its queries, and write checkpoints as it does by default.
"""

import os

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    **({} if os.environ.get("BARNABAS_TEST_COMPILED_QUERIES", "0") == "1" else QUICK),
}
SUBMIT_OPTS = " ".join((JAVA, *(f"-D{name}={value}" for name, value in SETTINGS.items())))
