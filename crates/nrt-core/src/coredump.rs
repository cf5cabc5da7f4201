//! Core-dump path templates and the gate of the dump helper.
