//! Benches of the core, a module a structure.
fn main() {}
