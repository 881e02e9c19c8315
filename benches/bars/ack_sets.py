"""Ack sets of partly acknowledged batches: the maps in the cursors of Pulsar 4.2.4 and 5.0.1, and ackwell's.

`inorder` and `scattered` are 200,000 batches of 10 messages, in order of position and in another order;
`large` is 20,000 batches of 1,000 messages. The peers are Pulsar's map from positions to `BitSet` with the
steps of `ManagedCursorImpl`, without its locks.
"""

from __future__ import annotations

from benches.bars.rows import Against, Row
from benches.bars.sides import ours, peer, read_operations

WORKLOADS = ("inorder", "scattered", "large")
PEERS = {"4.2.4": "v424", "5.0.1": "v501d"}
SIDES = [ours("ack_sets"), *(peer("E", label) for label in PEERS.values())]
OPERATIONS = {
    "acknowledge a first message": "ackFirst",
    "acknowledge a second message": "ackSecond",
    "get at random": "get",
    "walk over the sets": "walk",
    "encode": "encode",
    "decode": "decode",
    "remove up to the middle": "removeUpTo",
}

read = read_operations

BARS: list[Row] = [
    row
    for version, label in PEERS.items()
    for workload in WORKLOADS
    for row in (
        *(
            Against(f"{name}, {workload}, Pulsar {version}", workload, operation, label, 1 / 3)
            for name, operation in OPERATIONS.items()
        ),
        Against(f"bytes a batch, {workload}, Pulsar {version}", workload, "bytes", label, 1 / 5),
    )
]
