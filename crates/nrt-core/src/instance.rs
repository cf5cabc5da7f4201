//! Instance identity: family, size, architecture name, device revision.
