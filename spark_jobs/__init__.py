"""PySpark pipelines over the standard Kafka source; they know a broker only by its address."""
