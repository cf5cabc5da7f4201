//! The C surface as a table, and what a file really exports.
