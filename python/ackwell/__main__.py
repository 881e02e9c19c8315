"""The entry point of `python -m ackwell`, and the file to pass to `spark-submit`."""

from ackwell.cli import main

main()
