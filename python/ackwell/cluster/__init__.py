"""The admin API of a live cluster: requests, the statistics of topics, and dumps of the statistics."""
