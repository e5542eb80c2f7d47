//! Benchmarks and checks.
fn main() {}
