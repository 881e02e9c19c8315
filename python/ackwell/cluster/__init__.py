"""Use the admin API of a live cluster: send requests, read the statistics of topics, and save dumps."""
