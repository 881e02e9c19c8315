"""Nothing here is a test, and some of it needs what only `make mutants` installs."""

collect_ignore_glob = ["*.py"]
