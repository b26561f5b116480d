//! Bindings: conversions, errors, the GIL; no logic.
