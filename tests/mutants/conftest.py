"""Nothing here is a test, and some of it needs what only `make lab-mutants` installs."""

collect_ignore_glob = ["*.py"]
