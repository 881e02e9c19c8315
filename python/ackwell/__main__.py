"""`python -m ackwell` is the command line too, and this file is what `spark-submit` takes."""

import sys

if not __package__:
    # Started as a file, Python looks for modules beside it first, and some here are named as standard ones.
    del sys.path[0]

from ackwell.cli import main

main()
