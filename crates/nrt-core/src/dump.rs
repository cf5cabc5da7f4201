//! The information dump printed with the first failure.
