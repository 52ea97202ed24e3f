"""Spark: its `spark-submit` as jobs."""
