//! The load generator: a trial document in, a record out.
