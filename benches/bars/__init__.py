"""Bars: figures of ackwell that must be reached, compared with peers that are measured in the same run.

An *area* is one subject, such as range sets. A *side* is a program that is measured: ackwell or a peer.
`make lab-bench-peers` (`python -m benches.bars [AREA…]`) runs the sides of an area in turn, for several
rounds. It takes the medians, compares the figures of ackwell with the bar of each row, prints a table and
writes `benches/record/AREA-MACHINE-DATE.json`.

**To add an area**, add one file `benches/bars/AREA.py` with

- `SIDES`: the sides. `ours("AREA")` is the Rust bench `bars`. `peer("B", "v424")` is a Java program, which is
  skipped with a reason if Java is missing. A `Side` runs any other command. A command prints JSON lines.
- `WORKLOADS`: names of `benches/workloads.toml` that are passed to the commands.
- `read(line)`: a function that yields `(workload, operation, samples)` for each figure in a JSON line of any
  side. The lines of parts A and B and those of ackwell have one form, which `sides.read_operations` reads.
- `BARS`: the rows of the table, in order. The bar of a row limits the figure of ackwell:
  `AtMost(row, workload, operation, limit, unit)` to a number, `AgainstBest(row, workload, operation, factor)`
  to a multiple of the best peer's figure, `Against(…, side, factor)` to a multiple of one side's figure, and
  `AgainstOurs(row, workload, operation, base, factor)` to a multiple of ackwell's figure on another workload.
- optionally `measure()`: a function that yields `(side, workload, operation, samples)` for figures that are
  measured in this process (the Python classes). `calls.alternate` times callables in turn.

Add the name of the area to `AREAS` in `__main__.py`, and a file `benches/rust/bars/AREA.rs` to the Rust
bench, which prints the lines of ackwell.
"""
