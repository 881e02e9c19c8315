"""`python -m ackwell` is the command line too, and this file is what `spark-submit` takes."""

from ackwell.cli import main

main()
