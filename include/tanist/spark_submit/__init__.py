"""Spark jobs, started and waited for. Nothing here imports pyspark: spark-submit does."""
