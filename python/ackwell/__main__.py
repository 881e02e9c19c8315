"""`python -m ackwell` is the command line too."""

from ackwell.cli import main

main()
