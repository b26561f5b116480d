//! Makes foreign texts safe to print: blots secrets, replaces control characters.

use std::collections::HashMap;

use loadstone_loadgen::{Sent, keep_sent, secrecy, settings};
use pyo3::prelude::*;

/// Keeps the values of `{env: NAME}` and `{file: PATH}` that a controller sent, in memory only,
/// replacing those sent before.
#[pyfunction]
pub(crate) fn keep_secrets(variables: HashMap<String, String>, files: HashMap<String, String>) {
    keep_sent(Sent { variables, files });
}

/// Returns a target's message as one line, without this process's secrets.
#[pyfunction]
pub(crate) fn foreign_line(text: &str) -> String {
    secrecy::foreign_line(text)
}

/// Returns a text in which secrets, and parts of them of eight bytes or more, are blotted out.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's list becomes a vector of ours")]
pub(crate) fn blot(text: &str, secrets: Vec<String>) -> String {
    secrecy::blot(text, secrets.iter().map(String::as_str))
}

/// Returns whether the values of an additional header are no secrets.
#[pyfunction]
pub(crate) fn is_harmless_header(name: &str) -> bool {
    settings::is_harmless_header(name)
}

/// Returns the name of an environment variable for a message, unless it may be a secret in place of
/// the name.
#[pyfunction]
pub(crate) fn variable_named(name: &str) -> String {
    secrecy::variable_named(name)
}

/// Returns a file's name for a message that it cannot be read, unless it may be a secret.
#[pyfunction]
pub(crate) fn file_named(path: &str) -> String {
    secrecy::file_named(path)
}

/// Returns a text without characters that could control a terminal; line breaks are kept.
#[pyfunction]
pub(crate) fn plain(text: &str) -> String {
    secrecy::plain(text)
}
