"""The functions that executors run. They take and return Arrow batches.

No module of this package imports pyspark. So a worker that unpickles one of these functions loads only
PyArrow and ackwell.
"""
