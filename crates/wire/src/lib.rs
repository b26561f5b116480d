//! loadstone-wire.
