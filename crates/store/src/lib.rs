//! loadstone-store.
