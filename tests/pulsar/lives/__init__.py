"""The doctor's verdict from the admin API alone, compared with the redeliveries after a real restart.

A `life` is a random subscription on a live broker; `examine` restarts the broker under many of them and
compares the verdict with the redeliveries; `recorded` stores some of them for a test without a broker.
"""
