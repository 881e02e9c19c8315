"""Without tests: some modules of this folder need packages that only `make lab-mutants` installs."""

collect_ignore_glob = ["*.py"]
