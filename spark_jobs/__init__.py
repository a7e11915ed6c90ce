"""PySpark pipelines over Spark's standard Kafka source; they use a broker only by its address."""
