//! The tests of this example are in `tests/orders.rs`.
