"""Which tests judge a module: few and quick ones, those that kill most of its mutants first."""

from __future__ import annotations

SUBSCRIPTION = [
    "tests/subscription/test_dispatch.py",
    "tests/subscription/test_limits.py",
    "tests/subscription/test_keys.py",
    "tests/subscription/test_acks.py",
    "tests/subscription/test_redelivery.py",
    "tests/subscription/test_delays.py",
    "tests/subscription/test_transactions.py",
    "tests/subscription/test_moves.py",
    "tests/subscription/test_summary.py",
    "tests/protocol/test_command_ack.py",
    "tests/saving/test_subscription_saves.py",
    "tests/subscription/test_upstream_bugs.py",
    "tests/subscription/test_model.py",
    "tests/subscription/test_refusals.py",
    "tests/subscription/test_small_scope.py",
]

SAVING = [
    "tests/saving/test_journal.py",
    "tests/saving/test_deltas.py",
    "tests/saving/test_parts.py",
    "tests/saving/test_recovery.py",
    "tests/saving/test_limits.py",
    "tests/saving/test_versions.py",
    "tests/saving/test_cursor_saves.py",
    "tests/saving/test_tracking.py",
    "tests/saving/test_subscription_saves.py",
]

JUDGES: dict[str, list[str]] = {
    "python/ackwell/cursor.py": [
        "tests/cursor/test_cursor.py",
        "tests/saving/test_cursor_saves.py",
        "tests/subscription/test_broker_points.py",
        "tests/subscription/test_places.py",
        "tests/saving/test_tracking.py",
        "tests/subscription/test_refusals.py",
        "tests/subscription/test_acks.py",
    ],
    "python/ackwell/cursor_settings.py": [
        "tests/subscription/test_broker_points.py",
        "tests/cursor/test_cursor.py",
    ],
    "python/ackwell/ack_sets.py": [
        "tests/test_ack_sets.py",
        "tests/cursor/test_cursor.py",
        "tests/subscription/test_acks.py",
    ],
    "python/ackwell/loss.py": ["tests/differential/test_position_info.py", "tests/cursor/test_cursor.py"],
    "python/ackwell/delayed.py": ["tests/delayed/test_tracker.py", "tests/saving/test_tracking.py"],
    "python/ackwell/subscription/": SUBSCRIPTION,
    "python/ackwell/protocol/command_ack.py": ["tests/protocol/test_command_ack.py"],
    "python/ackwell/subscription/selectors.py": ["tests/subscription/test_sticky_key.py", *SUBSCRIPTION],
    "python/ackwell/subscription/sticky_key.py": ["tests/subscription/test_sticky_key.py", *SUBSCRIPTION],
    "python/ackwell/saving/": SAVING,
    "python/ackwell/saving/chunks.py": [
        "tests/saving/test_chunks.py",
        "tests/differential/test_chunks.py",
        *SAVING,
    ],
    "python/ackwell/broker/": [
        "tests/broker/test_stats.py",
        "tests/broker/test_restart.py",
        "tests/broker/test_restart_model.py",
        "tests/diagnosis/test_inspect.py",
        "tests/diagnosis/test_doctor.py",
    ],
    "python/ackwell/broker/writes.py": [
        "tests/broker/test_restart.py",
        "tests/broker/test_restart_model.py",
        "tests/diagnosis/test_inspect.py",
        "tests/diagnosis/test_doctor.py",
    ],
    "python/ackwell/broker/restart.py": [
        "tests/broker/test_restart.py",
        "tests/broker/test_restart_model.py",
        "tests/diagnosis/test_inspect.py",
        "tests/diagnosis/test_doctor.py",
    ],
    "python/ackwell/broker/admin.py": ["tests/broker/test_admin.py", "tests/broker/test_collect.py"],
    "python/ackwell/broker/endpoint.py": ["tests/broker/test_admin.py", "tests/broker/test_collect.py"],
    "python/ackwell/broker/collect.py": ["tests/broker/test_collect.py", "tests/broker/test_admin.py"],
    "python/ackwell/broker/batch_sizes.py": ["tests/broker/test_collect.py", "tests/broker/test_stats.py"],
    "python/ackwell/replay/agreement.py": ["tests/replay/test_broker_agreement.py"],
    "python/ackwell/replay/columns.py": ["tests/replay/test_fold.py", "tests/spark/test_tasks.py"],
    "python/ackwell/replay/event_columns.py": ["tests/replay/test_fold.py", "tests/spark/test_tasks.py"],
    "python/ackwell/replay/events.py": [
        "tests/replay/test_events.py",
        "tests/replay/test_states.py",
        "tests/hostile/test_found.py",
    ],
    "python/ackwell/replay/files.py": ["tests/replay/test_states.py", "tests/replay/test_files.py"],
    "python/ackwell/replay/fold.py": ["tests/replay/test_fold.py", "tests/replay/test_states.py"],
    "python/ackwell/replay/parquet.py": ["tests/hostile/test_found.py", "tests/replay/test_files.py"],
    "python/ackwell/replay/resets.py": ["tests/replay/test_fold.py", "tests/replay/test_states.py"],
    "python/ackwell/replay/states.py": [
        "tests/replay/test_states.py",
        "tests/replay/test_fold.py",
        "tests/cli/test_replay.py",
    ],
    "python/ackwell/replay/tables.py": ["tests/replay/test_tables.py", "tests/spark/test_tasks.py"],
    "python/ackwell/replay/traces.py": [
        "tests/replay/test_states.py",
        "tests/hostile/test_found.py",
        "tests/replay/test_files.py",
    ],
}
"""A folder, or one of its files where other tests judge it; a folder's modules are the scope of a sample."""

CORE_JUDGES = [
    "tests/differential",
    "tests/replay/test_fold.py",
    "tests/replay/test_tables.py",
    "tests/delayed/test_tracker.py",
    "tests/cursor/test_cursor.py",
    "tests/saving/test_deltas.py",
    "tests/saving/test_parts.py",
    "tests/saving/test_recovery.py",
]
"""What judges the core through Python, after its own tests."""


def judges(module: str) -> list[str]:
    """Return the tests of a module: those of the longest entry that begins its path, and its examples."""
    entry = max((entry for entry in JUDGES if module.startswith(entry)), key=len, default=None)
    if entry is None:
        raise SystemExit(f"{module}: tests/mutants/judges.py does not say which tests judge it")
    return [module, *JUDGES[entry], "tests/test_values.py"]
