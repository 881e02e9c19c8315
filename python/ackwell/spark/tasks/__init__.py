"""The columnar work of executors, under the names of the modules whose work it is.

Nothing here imports pyspark: a worker that unpickles one of these functions loads PyArrow and ackwell alone.
"""
