"""The doctor against real restarts: what it says from the admin API alone, and what then comes back.

A `life` is a random subscription on a live broker; `examine` restarts the broker under many of them and puts
the verdict beside the truth; `recorded` keeps some for a test without a broker.
"""
