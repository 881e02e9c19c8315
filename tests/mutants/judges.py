"""The tests of each module for its mutants: few and quick ones, the most effective first."""

from __future__ import annotations

from pathlib import Path

SUBSCRIPTION = [
    "tests/subscription/test_dispatch.py",
    "tests/subscription/test_limits.py",
    "tests/subscription/test_keys.py",
    "tests/subscription/test_replay_queue.py",
    "tests/subscription/test_acks.py",
    "tests/subscription/test_redelivery.py",
    "tests/subscription/test_in_hand.py",
    "tests/subscription/test_delays.py",
    "tests/subscription/test_transactions.py",
    "tests/subscription/test_moves.py",
    "tests/subscription/test_summary.py",
    "tests/protocol/test_command_ack.py",
    "tests/saving/test_subscription_saves.py",
    "tests/subscription/test_upstream_bugs.py",
    "tests/subscription/test_model.py",
    "tests/subscription/test_batches.py",
    "tests/subscription/test_refusals.py",
    "tests/subscription/test_extend.py",
    "tests/subscription/test_key_order.py",
    "tests/subscription/test_reads.py",
    "tests/subscription/test_small_scope.py",
]

KEYS = [
    "tests/subscription/test_replay_queue.py",
    "tests/subscription/test_keys.py",
    "tests/subscription/test_key_order.py",
    "tests/subscription/test_reads.py",
    "tests/subscription/test_batches.py",
    "tests/subscription/test_limits.py",
    "tests/subscription/test_transactions.py",
    "tests/subscription/test_redelivery.py",
    "tests/subscription/test_in_hand.py",
    "tests/subscription/test_refusals.py",
    "tests/subscription/test_model.py",
    "tests/subscription/test_small_scope.py",
]

TRIES = [
    "tests/subscription/test_in_hand.py",
    "tests/subscription/test_try_exploration.py",
    "tests/subscription/test_refusals.py",
    "tests/subscription/test_summary.py",
    "tests/subscription/test_model.py",
    "tests/saving/test_subscription_saves.py",
]

SAVING = [
    "tests/saving/test_journal.py",
    "tests/saving/test_deltas.py",
    "tests/saving/test_parts.py",
    "tests/saving/test_recovery.py",
    "tests/saving/test_limits.py",
    "tests/saving/test_versions.py",
    "tests/threads/test_one_thread.py",
    "tests/cursor/test_cursor_saves.py",
    "tests/cursor/test_tracking.py",
    "tests/saving/test_subscription_saves.py",
]

STORE = ["tests/store/test_stores.py", "tests/store/test_sqlite_io.py", "tests/store/test_flips.py"]

PROTOCOL = [
    "tests/protocol/test_constants.py",
    "tests/protocol/test_names_and_parts.py",
    "tests/protocol/test_frames.py",
    "tests/protocol/test_messages.py",
    "tests/protocol/test_payload.py",
    "tests/protocol/test_fast_frames.py",
    "tests/protocol/test_command_ack.py",
    "tests/devbroker/test_transactions.py",
    "tests/devbroker/test_honest.py",
    "tests/devbroker/test_hostile.py",
]

BROKER = [
    "tests/broker/test_stats.py",
    "tests/broker/test_restart.py",
    "tests/broker/test_restart_model.py",
    "tests/diagnosis/test_inspect.py",
    "tests/diagnosis/test_doctor.py",
]

DIAGNOSIS = [
    "tests/diagnosis/test_doctor.py",
    "tests/diagnosis/test_codes.py",
    "tests/diagnosis/test_delivery.py",
    "tests/diagnosis/test_delivery_bounds.py",
    "tests/diagnosis/test_what_if.py",
    "tests/diagnosis/test_holes.py",
    "tests/diagnosis/test_inspect.py",
    "tests/diagnosis/test_doctor_lives.py",
    "tests/diagnosis/test_doctor_truth.py",
    "tests/diagnosis/test_report.py",
]

COMMANDS = [
    "tests/cli/test_tables.py",
    "tests/cli/test_errors.py",
    "tests/cli/test_options.py",
    "tests/cli/test_small_commands.py",
    "tests/cli/test_asking.py",
    "tests/cli/test_operators.py",
    "tests/cli/test_addresses.py",
    "tests/hostile/test_arguments.py",
    "tests/hostile/test_found.py",
    "tests/cli/test_doctor.py",
    "tests/cli/test_help.py",
    "tests/cli/test_replay.py",
]

DEVBROKER = [
    "tests/devbroker/test_protocol.py",
    "tests/devbroker/test_commands.py",
    "tests/devbroker/test_requests.py",
    "tests/devbroker/test_recovery.py",
    "tests/devbroker/test_pieces.py",
    "tests/devbroker/test_loading.py",
    "tests/devbroker/test_loading_sources.py",
    "tests/devbroker/test_tester.py",
    "tests/devbroker/test_persistent_map.py",
    "tests/devbroker/test_transactions.py",
    "tests/devbroker/test_honest.py",
    "tests/devbroker/test_ledgers.py",
    "tests/devbroker/test_ages.py",
    "tests/devbroker/test_admin.py",
    "tests/devbroker/test_faults.py",
    "tests/scenarios/test_scenarios.py",
    "tests/devbroker/test_restart.py",
    "tests/devbroker/test_hostile.py",
    "tests/devbroker/test_memory.py",
    "tests/devbroker/test_sessions.py",
    "tests/devbroker/test_broker_file.py",
    "tests/devbroker/test_key_order.py",
    "tests/devbroker/test_pulsar_store.py",
    "tests/devbroker/test_quotas_and_rates.py",
    "tests/devbroker/test_accepted_credentials.py",
]

RECORDING = [
    "tests/recording/test_observer.py",
    "tests/recording/test_links.py",
    "tests/recording/test_event_files.py",
    "tests/recording/test_proxy.py",
    "tests/recording/test_command.py",
    "tests/replay/test_sequence.py",
]

REPLAY = [
    "tests/replay/test_events.py",
    "tests/replay/test_losses.py",
    "tests/replay/test_tables.py",
    "tests/examples/test_agreement.py",
    "tests/replay/test_states.py",
    "tests/replay/test_kinds.py",
    "tests/replay/test_columns.py",
    "tests/hostile/test_found.py",
    "tests/replay/test_batches.py",
    "tests/replay/test_files.py",
    "tests/replay/test_payloads.py",
    "tests/replay/test_sequence.py",
    "tests/replay/test_fold.py",
]

TASKS = ["tests/spark/test_task_rows.py", "tests/spark/test_tasks.py", "tests/spark/test_stream_state.py"]

# Tests without a Spark session come first, because a session costs seconds.
SPARK = [
    *TASKS,
    "tests/spark/test_session.py",
    "tests/spark/test_ordered.py",
    "tests/spark/test_tables.py",
    "tests/spark/test_sources.py",
    "tests/spark/test_ship.py",
    "tests/spark/test_replay.py",
]

RESCUE = [
    "tests/rescue/test_plan.py",
    "tests/rescue/test_connection.py",
    "tests/rescue/test_holding.py",
    "tests/rescue/test_snapshot.py",
    "tests/rescue/test_operations.py",
    "tests/rescue/test_plan_files.py",
]

WATCH = [
    "tests/rescue/test_watch_rounds.py",
    "tests/rescue/test_watching.py",
    "tests/rescue/test_watch.py",
]

JUDGES: dict[str, list[str]] = {
    # The modules without another entry: those that all rooms use.
    "python/ackwell/": [
        "tests/test_import.py",
        "tests/test_position.py",
        "tests/cursor/test_cursor_state.py",
        "tests/cursor/test_ack_sets.py",
        "tests/differential/test_refusals.py",
        "tests/cursor/test_cursor.py",
        "tests/cli/test_errors.py",
        "tests/saving/test_journal.py",
        "tests/differential/test_position_info.py",
        "tests/store/test_stores.py",
    ],
    "python/pytest_ackwell/": ["tests/devbroker/test_tutorial.py"],
    "python/ackwell/cursor/": ["tests/cursor/test_cursor_saves.py", "tests/cursor/test_tracking.py"],
    "python/ackwell/cursor/changes.py": ["tests/cursor/test_tracking.py"],
    "python/ackwell/cursor/rules.py": [
        "tests/cursor/test_cursor.py",
        "tests/cursor/test_cursor_saves.py",
        "tests/subscription/test_broker_points.py",
        "tests/subscription/test_places.py",
        "tests/cursor/test_tracking.py",
        "tests/subscription/test_refusals.py",
        "tests/subscription/test_acks.py",
    ],
    "python/ackwell/cursor/cursor_state.py": [
        "tests/cursor/test_cursor_state.py",
        "tests/cursor/test_cursor_saves.py",
    ],
    "python/ackwell/testing/": [
        "tests/store/test_stores.py",
        "tests/saving/test_crashes.py",
        "tests/store/test_sqlite_io.py",
    ],
    "python/ackwell/cursor/cursor_settings.py": [
        "tests/subscription/test_broker_points.py",
        "tests/cursor/test_cursor.py",
    ],
    "python/ackwell/cursor/ack_sets.py": [
        "tests/cursor/test_ack_sets.py",
        "tests/cursor/test_cursor.py",
        "tests/subscription/test_acks.py",
    ],
    "python/ackwell/loss.py": ["tests/differential/test_position_info.py", "tests/cursor/test_cursor.py"],
    "python/ackwell/delayed.py": ["tests/delayed/test_tracker.py", "tests/cursor/test_tracking.py"],
    "python/ackwell/subscription/": SUBSCRIPTION,
    "python/ackwell/protocol/": PROTOCOL,
    "python/ackwell/protocol/command_ack.py": [
        "tests/protocol/test_command_ack.py",
        "tests/protocol/test_constants.py",
    ],
    "python/ackwell/store/": STORE,
    "python/ackwell/store/pulsar.py": ["tests/devbroker/test_pulsar_store.py"],
    "python/ackwell/subscription/draining.py": KEYS,
    "python/ackwell/subscription/policies/by_key.py": KEYS,
    "python/ackwell/subscription/positions_by_hash.py": KEYS,
    "python/ackwell/subscription/replay_queue.py": KEYS,
    "python/ackwell/subscription/in_hand.py": TRIES,
    "python/ackwell/subscription/quarantine.py": TRIES,
    "python/ackwell/subscription/selectors.py": ["tests/subscription/test_sticky_key.py", *SUBSCRIPTION],
    "python/ackwell/subscription/sticky_key.py": ["tests/subscription/test_sticky_key.py", *SUBSCRIPTION],
    "python/ackwell/saving/": SAVING,
    "python/ackwell/saving/chunks.py": [
        "tests/saving/test_chunks.py",
        "tests/differential/test_chunks.py",
        *SAVING,
    ],
    "python/ackwell/broker/": BROKER,
    "python/ackwell/broker/writes.py": BROKER[1:],
    "python/ackwell/broker/pasted.py": ["tests/broker/test_pasted.py", "tests/diagnosis/test_doctor.py"],
    "python/ackwell/broker/dispatch.py": [
        "tests/diagnosis/test_delivery.py",
        "tests/diagnosis/test_holes.py",
        *BROKER,
    ],
    "python/ackwell/broker/contradictions.py": ["tests/broker/test_contradictions.py", *BROKER],
    "python/ackwell/broker/names.py": ["tests/broker/test_contradictions.py"],
    "python/ackwell/broker/codes.py": ["tests/diagnosis/test_codes.py", "tests/diagnosis/test_delivery.py"],
    "python/ackwell/broker/properties.py": ["tests/broker/test_properties.py"],
    "python/ackwell/broker/restart.py": BROKER[1:],
    "python/ackwell/broker/overview.py": ["tests/cluster/test_survey.py"],
    "python/ackwell/broker/metadata_node.py": ["tests/broker/test_metadata_node.py"],
    "python/ackwell/broker/batch_sizes.py": ["tests/cluster/test_collect.py", "tests/broker/test_stats.py"],
    "python/ackwell/cluster/": ["tests/cluster/test_admin.py", "tests/cluster/test_collect.py"],
    "python/ackwell/cluster/endpoint.py": [
        "tests/cluster/test_endpoint.py",
        "tests/cluster/test_admin.py",
        "tests/cluster/test_collect.py",
    ],
    "python/ackwell/cluster/credentials.py": [
        "tests/cluster/test_client_conf.py",
        "tests/cluster/test_admin.py",
    ],
    "python/ackwell/cluster/client_conf.py": ["tests/cluster/test_client_conf.py"],
    "python/ackwell/cluster/oauth2.py": ["tests/cluster/test_oauth2.py"],
    "python/ackwell/cluster/collect.py": ["tests/cluster/test_collect.py", "tests/cluster/test_admin.py"],
    "python/ackwell/cli/": COMMANDS,
    "python/ackwell/cli/upgrade_check_command.py": ["tests/cli/test_upgrade_check.py"],
    "python/ackwell/cli/spark_command.py": [*COMMANDS, "tests/spark/test_submit.py"],
    "python/ackwell/devbroker/": DEVBROKER,
    "python/ackwell/devbroker/admin_api/": [
        "tests/devbroker/test_requests.py",
        *(each for each in DEVBROKER if "requests" not in each),
    ],
    "python/ackwell/devbroker/loading.py": [
        "tests/devbroker/test_loading_sources.py",
        "tests/devbroker/test_loading.py",
    ],
    "python/ackwell/diagnosis/": DIAGNOSIS,
    "python/ackwell/diagnosis/delivery.py": [
        "tests/diagnosis/test_delivery_bounds.py",
        "tests/diagnosis/test_delivery.py",
        "tests/diagnosis/test_codes.py",
        "tests/diagnosis/test_holes.py",
        "tests/diagnosis/test_doctor.py",
    ],
    "python/ackwell/diagnosis/what_if.py": ["tests/diagnosis/test_what_if.py"],
    "python/ackwell/diagnosis/upgrade.py": [
        "tests/diagnosis/test_upgrade.py",
        "tests/cli/test_upgrade_check.py",
    ],
    "python/ackwell/diagnosis/upgrade_rules.py": ["tests/diagnosis/test_upgrade.py"],
    "python/ackwell/drawing/": ["tests/drawing/test_drawing.py", "tests/diagnosis/test_report.py"],
    "python/ackwell/recording/": RECORDING,
    "python/ackwell/spark/": SPARK,
    "python/ackwell/spark/tasks/": TASKS,
    "python/ackwell/spark/versions.py": ["tests/spark/test_versions.py"],
    "python/ackwell/replay/": REPLAY,
    "python/ackwell/replay/history_check.py": [
        "tests/replay/test_history.py",
        "tests/devbroker/test_key_order.py",
    ],
    "python/ackwell/lazy_names.py": ["tests/test_import.py"],
    "python/ackwell/json_values.py": ["tests/test_json_values.py", "tests/broker/test_stats.py"],
    "python/ackwell/object_paths.py": ["tests/cli/test_object_stores.py"],
    "python/ackwell/regular_files.py": ["tests/test_regular_files.py", "tests/broker/test_stats.py"],
    "python/ackwell/sources.py": ["tests/test_sources.py", "tests/diagnosis/test_inspect.py"],
    "python/ackwell/rescue/": RESCUE,
    "python/ackwell/rescue/acks.py": [*RESCUE, "tests/rescue/test_rescue.py"],
    "python/ackwell/rescue/audit.py": ["tests/rescue/test_operations.py", "tests/rescue/test_rescue.py"],
    "python/ackwell/rescue/batch_parts.py": ["tests/rescue/test_batch_parts.py"],
    "python/ackwell/rescue/restoring.py": [*RESCUE, "tests/rescue/test_rescue.py"],
    "python/ackwell/rescue/watch.py": WATCH,
    "python/ackwell/rescue/watch_folder.py": WATCH,
    "python/ackwell/rescue/watch_server.py": WATCH,
    "python/ackwell/rescue/watching.py": WATCH,
    "python/ackwell/rescue/windows.py": ["tests/rescue/test_window_steps.py", "tests/rescue/test_windows.py"],
    "python/ackwell/replay/columns.py": [
        "tests/replay/test_columns.py",
        "tests/replay/test_fold.py",
        "tests/spark/test_tasks.py",
    ],
    "python/ackwell/replay/event_columns.py": ["tests/replay/test_fold.py", "tests/spark/test_tasks.py"],
    "python/ackwell/replay/events.py": [
        "tests/replay/test_events.py",
        "tests/replay/test_states.py",
        "tests/hostile/test_found.py",
    ],
    "python/ackwell/replay/files.py": ["tests/replay/test_states.py", "tests/replay/test_files.py"],
    "python/ackwell/replay/fold.py": ["tests/replay/test_fold.py", "tests/replay/test_states.py"],
    "python/ackwell/replay/parquet.py": ["tests/hostile/test_found.py", "tests/replay/test_files.py"],
    "python/ackwell/replay/parquet_footer.py": ["tests/replay/test_parquet_footer.py"],
    "python/ackwell/replay/resets.py": ["tests/replay/test_fold.py", "tests/replay/test_states.py"],
    "python/ackwell/replay/sequence.py": [
        "tests/replay/test_sequence.py",
        "tests/replay/test_kinds.py",
        "tests/examples/test_agreement.py",
        "tests/replay/test_states.py",
    ],
    "python/ackwell/replay/states.py": [
        "tests/replay/test_states.py",
        "tests/replay/test_fold.py",
        "tests/cli/test_replay.py",
    ],
    "python/ackwell/replay/table_schemas.py": ["tests/replay/test_tables.py", "tests/spark/test_tasks.py"],
    "python/ackwell/replay/traces.py": [
        "tests/replay/test_states.py",
        "tests/hostile/test_found.py",
        "tests/replay/test_files.py",
    ],
}
"""Folder → its tests. A file with other tests has its own key."""

CORE_JUDGES = [
    "tests/differential",
    "tests/protocol/test_command_ack.py",
    "tests/replay/test_fold.py",
    "tests/replay/test_states.py",
    "tests/replay/test_tables.py",
    "tests/delayed/test_tracker.py",
    "tests/cursor/test_cursor.py",
    "tests/saving/test_deltas.py",
    "tests/saving/test_parts.py",
    "tests/saving/test_recovery.py",
]
"""The tests through Python that run if the core's Rust tests pass."""


def entry_of(module: str) -> str:
    """Return the longest key of `JUDGES` that is a prefix of a module's path."""
    entry = max((entry for entry in JUDGES if module.startswith(entry)), key=len, default=None)
    if entry is None:
        raise SystemExit(f"{module}: tests/mutants/judges.py does not say which tests judge it")
    return entry


def judges(module: str) -> list[str]:
    """Return the tests of a module: its doctests, and those of its entry."""
    return [module, *JUDGES[entry_of(module)], "tests/test_values.py"]


OWN = {"delayed": "delayed"}
"""The rooms of modules without a folder. All other modules without a folder are in the room "words"."""


def room_of(module: str) -> str:
    """Return the room of a module."""
    tree, package, name, *inside = Path(module).parts
    if tree == "rust" or package == "pytest_ackwell":
        return "core" if tree == "rust" else "devbroker"
    return name if inside else OWN.get(name.removesuffix(".py"), "words")
