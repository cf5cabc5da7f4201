//! What `nrt-info` shows.
