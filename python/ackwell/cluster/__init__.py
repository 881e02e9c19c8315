"""The admin API of a live cluster: requests, statistics of its topics, and dumps of them in files."""
