"""Records that Pulsar 5.0.1 wrote to the metadata store when it closed a cursor, on both Python engines.

`tests/vectors/records.json` holds them, compressed with LZ4 (by default from 16 KiB on, here from 16 bytes):
ranges, batch indexes, and `idleSince`, which is field 9 and kept as an unknown field.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ackwell
import tests.reference

RECORDS = json.loads((Path(__file__).parents[1] / "vectors" / "records.json").read_text())
ENGINES = [pytest.param(ackwell, id="native"), pytest.param(tests.reference, id="reference")]
IDLE_SINCE = 9 << 3
"""The tag of the field."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", RECORDS, ids=lambda case: case["name"])
def test_a_record_of_5_0_1_is_read_and_written_back(engine: Any, case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    record = engine.ManagedCursorInfo.decode(data)
    assert (record.compression, record.cursors_ledger_id) == (case["compression"], -1)
    info = record.position_info
    assert list(info.position) == case["markDelete"]
    assert [list(each) for each in info.individually_deleted] == case["ranges"]
    found = {
        f"{ledger_id}:{entry_id}": list(words) for (ledger_id, entry_id), words in info.batch_deleted.items()
    }
    assert found == case["ackSets"]
    assert record.unknown_fields[0] == IDLE_SINCE
    assert record.encode() == data
    # Without the original bytes: only the compressed part may differ from the broker's compressor.
    again = engine.ManagedCursorInfo(
        -1, info, last_active=record.last_active, unknown_fields=record.unknown_fields
    )
    assert engine.ManagedCursorInfo.decode(again.encode(case["compression"])) == record
