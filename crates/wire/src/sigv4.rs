//! sigv4
