"""The demo: a year of flights, replayed into a broker and aggregated by Spark."""
