"""Bars: figures that must be reached, measured against peers in one run.

`make lab-bench-peers` (`python -m benches.bars [AREA…]`) runs the sides of an area in turn, round after
round, takes medians, holds ours against what each row demands, prints a table and writes
`benches/record/AREA-MACHINE-DATE.json`.

**To add an area**, add one file `benches/bars/AREA.py` with

- `SIDES`: what is run, as `Side`s: `ours("AREA")` (the Rust bench `bars`), `peer("B", "v424")` (Java,
  skipped with a reason without it), or a `Side` with another command. A command prints JSON lines;
- `WORKLOADS`: names of `benches/workloads.toml` that are passed to the commands;
- `read(line)`: which figures a JSON line holds: it yields `(workload, operation, samples)`. The side
  is known. Java's and our lines for parts A and B share one form, read by `sides.read_operations`;
- `BARS`: the rows, in order: `AtMost(row, workload, operation, limit, unit)` for a figure of ours alone,
  `AgainstBest(row, workload, operation, factor)` for a share of the best peer's, `Against(…, side, factor)`
  for a share of one named side's, `AgainstOurs(row, workload, operation, base, factor)` for a share of ours
  on another workload;
- optionally `measure()`: figures taken in this process (the Python side), yielding
  `(side, workload, operation, samples)`; `calls.alternate` times callables in turn.

and its name to `AREAS` in `__main__.py`. In the Rust bench, `benches/rust/bars/AREA.rs` prints the
lines of our side.
"""
