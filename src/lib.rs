//! The C entry layer.
