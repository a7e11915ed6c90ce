"""Test of an aggregation with PySpark's Kafka source."""

import pytest
from pyspark.sql import SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


def totals(spark, bootstrap, topic):
    """Return the sum of the values of each key."""
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    values = records.selectExpr("CAST(key AS STRING) AS customer", "CAST(CAST(value AS STRING) AS INT) AS price")
    return {row.customer: row["sum(price)"] for row in values.groupBy("customer").sum("price").collect()}


@pytest.fixture(scope="session")
def spark():
    settings = {"spark.jars.packages": CONNECTOR, "spark.sql.shuffle.partitions": 1, "spark.ui.enabled": False}
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    yield session
    session.stop()


def test_prices_are_added_by_customer(spark, kafka):
    topic = kafka.topic(partitions=2)
    topic.produce([("alice", "1"), ("bob", "5"), ("alice", "2")])
    assert totals(spark, kafka.bootstrap, topic.name) == {"alice": 3, "bob": 5}
