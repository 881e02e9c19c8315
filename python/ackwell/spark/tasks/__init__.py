"""The columnar functions that executors run.

No module here imports pyspark, so a worker that unpickles one of these functions loads only PyArrow and
ackwell.
"""
