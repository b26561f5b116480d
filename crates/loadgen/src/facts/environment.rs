//! Fills settings that a target does not give from environment variables that users already have.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// An environment variable, and the setting that it fills.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Name of the setting; `tls.ca_file` is the key `ca_file` of the setting `tls`.
    pub setting: &'static str,
    /// Whether it holds a secret or belongs to one. Such a variable is only referred to, never
    /// read.
    pub is_secret: bool,
    /// The command-line argument inside the variable, if it holds several.
    pub argument: Option<&'static str>,
}

impl Variable {
    /// A variable whose value is copied.
    #[must_use]
    pub const fn new(name: &'static str, setting: &'static str) -> Self {
        Self { name, setting, is_secret: false, argument: None }
    }

    /// A variable that is only referred to.
    #[must_use]
    pub const fn secret(name: &'static str, setting: &'static str) -> Self {
        Self { is_secret: true, ..Self::new(name, setting) }
    }

    /// An argument inside a variable.
    #[must_use]
    pub const fn argument(
        name: &'static str,
        argument: &'static str,
        setting: &'static str,
    ) -> Self {
        Self { argument: Some(argument), ..Self::new(name, setting) }
    }
}

/// A target's settings while they are filled. Settings that the target gives are not changed.
#[derive(Debug)]
pub struct Filling<'a> {
    given: &'a Map<String, Value>,
    environ: &'a HashMap<String, String>,
    added: Map<String, Value>,
}

impl<'a> Filling<'a> {
    pub(crate) fn new(given: &'a Map<String, Value>, environ: &'a HashMap<String, String>) -> Self {
        Self { given, environ, added: Map::new() }
    }

    pub(crate) fn into_added(self) -> Map<String, Value> {
        self.added
    }

    /// Returns a variable's value; an empty one counts as unset.
    pub(crate) fn variable(&self, name: &str) -> Option<&'a str> {
        self.environ.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a setting that the target gives or that was filled.
    pub(crate) fn setting(&self, name: &str) -> Option<&Value> {
        self.given.get(name).or_else(|| self.added.get(name))
    }

    /// Returns whether any of the settings is set.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.setting(name).is_some())
    }

    /// Sets a setting if it is absent.
    pub(crate) fn add(&mut self, setting: &str, value: Value) {
        if self.setting(setting).is_none() {
            self.added.insert(setting.to_owned(), value);
        }
    }

    /// Fills absent settings from the variables; the first with a value wins. Arguments inside a
    /// variable are parsed by the driver.
    pub(crate) fn fill(&mut self, variables: &[Variable]) {
        for variable in variables {
            let Some(value) = self.variable(variable.name) else { continue };
            if variable.argument.is_some() {
                continue;
            }
            let value =
                if variable.is_secret { json!({"env": variable.name}) } else { json!(value) };
            match variable.setting.split_once('.') {
                None => self.add(variable.setting, value),
                Some((setting, key)) => self.add(setting, json!({key: value})),
            }
        }
    }
}
