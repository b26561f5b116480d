//! Errors of ours: what keeps a trial from running. What a target answers under load is an
//! [`Outcome`](crate::outcome::Outcome), not an error.

use crate::secrecy::foreign_text;

/// Why a trial cannot run or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document is not a trial, or asks for what cannot be; one mistake a line.
    #[error("{}", .0.join("\n"))]
    Trial(Vec<String>),
    /// The target, its credentials or its buckets are not as they must be before load starts.
    #[error("{what}: {came_back}{}", hint_line(.hint))]
    Target {
        /// What was tried, on what.
        what: String,
        /// What came back.
        came_back: String,
        /// What to do.
        hint: Option<String>,
        /// Whether the target said no, so that what was asked of it is known not to be done.
        is_refusal: bool,
    },
    /// The machine refused something that the load generator itself needs.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}

impl Error {
    /// Makes the error of a target, whose words are made fit for people.
    pub fn target(what: impl Into<String>, came_back: impl Into<String>) -> Self {
        let came_back = foreign_text(&came_back.into());
        Self::Target { what: foreign_text(&what.into()), came_back, hint: None, is_refusal: false }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn with_hint(self, text: impl Into<String>) -> Self {
        match self {
            Self::Target { what, came_back, is_refusal, .. } => {
                Self::Target { what, came_back, hint: Some(text.into()), is_refusal }
            }
            other => other,
        }
    }

    /// Returns what went wrong, and what the user can do, as two texts.
    #[must_use]
    pub fn into_parts(self) -> (String, Option<String>) {
        match self {
            Self::Target { what, came_back, hint, .. } => (format!("{what}: {came_back}"), hint),
            other => (other.to_string(), None),
        }
    }

    /// Notes whether the target said no, instead of leaving open what became of it.
    #[must_use]
    pub(crate) fn refused_if(self, is_refusal: bool) -> Self {
        match self {
            Self::Target { what, came_back, hint, .. } => {
                Self::Target { what, came_back, hint, is_refusal }
            }
            other => other,
        }
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Target { is_refusal: true, .. })
    }
}
