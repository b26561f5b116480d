//! A driver's own keys of a target: their kinds, checks and access.

use serde_json::{Map, Value};

use crate::secrecy::remember;

/// One key of a driver's settings.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// Kind of value.
    pub kind: SettingKind,
    /// Whether it is required.
    pub required: bool,
    /// Default value, as text.
    pub default: Option<&'static str>,
    /// One line for users.
    pub help: &'static str,
}

/// Creates an optional setting without a default.
pub(crate) const fn setting(name: &'static str, kind: SettingKind, help: &'static str) -> Setting {
    Setting { name, kind, required: false, default: None, help }
}

/// Kind of value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A text.
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A text, or a reference to one in the environment or a file.
    TextOrReference,
    /// A reference to a secret in the environment or a file, never the secret.
    Secret,
    /// True or false.
    Flag,
    /// A number.
    Number,
    /// One text or a list of texts.
    Texts,
    /// A map of names to values.
    Map,
}

impl SettingKind {
    /// Returns the kind's name, for other programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Choice(_) => "choice",
            Self::TextOrReference => "text_or_reference",
            Self::Secret => "secret",
            Self::Flag => "flag",
            Self::Number => "number",
            Self::Texts => "texts",
            Self::Map => "map",
        }
    }
}

/// Returns all mistakes in the settings, with the key, the value and what is allowed.
pub(crate) fn mistakes(table: &[Setting], settings: &Map<String, Value>) -> Vec<String> {
    let mut mistakes = Vec::new();
    for setting in table {
        match settings.get(setting.name) {
            None | Some(Value::Null) if setting.required => {
                mistakes
                    .push(format!("target.settings.{}: missing; {}", setting.name, setting.help));
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                if let Err(allowed) = check(setting.kind, value) {
                    // A secret that was entered here by mistake must not appear in a message.
                    let shown = match setting.kind {
                        SettingKind::Secret => "something else".to_owned(),
                        _ => value.to_string(),
                    };
                    let name = setting.name;
                    mistakes
                        .push(format!("target.settings.{name}: found {shown}, allowed: {allowed}"));
                }
            }
        }
    }
    let names: Vec<&str> = table.iter().map(|setting| setting.name).collect();
    for key in settings.keys().filter(|key| !names.contains(&key.as_str())) {
        let allowed = names.join(", ");
        mistakes.push(format!("target.settings.{key}: unknown key, allowed: {allowed}"));
    }
    mistakes
}

fn check(kind: SettingKind, value: &Value) -> Result<(), String> {
    // In a header, a line break would begin another header.
    let is_line = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    let is_text = || value.as_str().is_some_and(is_line);
    let (is_right, allowed) = match kind {
        SettingKind::Text => (is_text(), "a text".to_owned()),
        SettingKind::Choice(choices) => {
            (value.as_str().is_some_and(|text| choices.contains(&text)), choices.join(", "))
        }
        SettingKind::TextOrReference => (
            is_text() || is_reference(value),
            "a text, {\"env\": NAME} or {\"file\": PATH}".to_owned(),
        ),
        SettingKind::Secret => (
            is_reference(value),
            "{\"env\": NAME} or {\"file\": PATH}, never the secret itself".to_owned(),
        ),
        SettingKind::Flag => (value.is_boolean(), "true or false".to_owned()),
        SettingKind::Number => (value.is_number(), "a number".to_owned()),
        SettingKind::Texts => (
            is_text()
                || value.as_array().is_some_and(|list| {
                    !list.is_empty() && list.iter().all(|item| item.as_str().is_some_and(is_line))
                }),
            "a text or a list of texts".to_owned(),
        ),
        SettingKind::Map => (value.is_object(), "names and values".to_owned()),
    };
    if is_right { Ok(()) } else { Err(allowed) }
}

/// Returns whether a value is exactly a reference to an environment variable or a file.
fn is_reference(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        object.len() == 1
            && ["env", "file"].iter().any(|key| object.get(*key).is_some_and(Value::is_string))
    })
}

/// Returns a setting as text, if it is one.
pub(crate) fn text<'a>(settings: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    settings.get(key).and_then(Value::as_str)
}

/// Returns a setting that is one text or a list of texts.
pub(crate) fn texts<'a>(settings: &'a Map<String, Value>, key: &str) -> Vec<&'a str> {
    match settings.get(key) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns a setting that is a map; values are converted to text.
pub(crate) fn pairs(settings: &Map<String, Value>, key: &str) -> Vec<(String, String)> {
    let Some(Value::Object(map)) = settings.get(key) else { return Vec::new() };
    map.iter()
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), text)
        })
        .collect()
}

/// Returns the headers that are added to every request. A server may send their values back, so they
/// are blotted from its texts, except those of headers of known, harmless use.
pub(crate) fn added_headers(settings: &Map<String, Value>) -> Vec<(String, String)> {
    let headers = pairs(settings, "headers");
    for (name, value) in headers.iter().filter(|(name, _)| !is_harmless_header(name)) {
        remember(&format!("header {name}"), value.trim());
    }
    headers
}

/// Returns whether the values of an additional header are no secrets.
#[must_use]
pub fn is_harmless_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let begins = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    match name.as_str() {
        "accept"
        | "cache-control"
        | "expect"
        | "range"
        | "user-agent"
        | "x-delete-after"
        | "x-delete-at"
        | "x-amz-acl"
        | "x-amz-storage-class"
        | "x-amz-request-payer" => true,
        _ if name.starts_with("x-amz-server-side-encryption-customer") => false,
        _ => begins(&[
            "accept-",
            "content-",
            "if-",
            "x-amz-server-side-encryption",
            "x-amz-checksum-",
        ]),
    }
}

/// Returns the mistakes in additional headers.
pub(crate) fn header_mistakes(settings: &Map<String, Value>) -> Vec<String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_value =
        |value: &str| value.bytes().all(|byte| byte == b'\t' || (32..127).contains(&byte));
    let wrong = |pair: &&(String, String)| !is_name(&pair.0) || !is_value(&pair.1);
    let headers = pairs(settings, "headers");
    let texts = headers.iter().filter(wrong).map(|(name, _)| {
        format!("target.settings.headers: found \"{name}\", allowed: header names and ASCII values")
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &[Setting] = &[
        Setting {
            name: "endpoints",
            kind: SettingKind::Texts,
            required: true,
            default: None,
            help: "where the store is",
        },
        Setting {
            name: "secret",
            kind: SettingKind::Secret,
            required: false,
            default: None,
            help: "the key",
        },
        Setting {
            name: "style",
            kind: SettingKind::Choice(&["path", "virtual"]),
            required: false,
            default: Some("path"),
            help: "how buckets are named",
        },
    ];

    #[test]
    fn the_values_of_added_headers_are_blotted_unless_their_use_is_known() {
        let Value::Object(map) = json!({"headers": {
            "X-Zebra": "canary-of-a-gateway", "Cache-Control": "no-transform, immutable",
            "X-Amz-Server-Side-Encryption-Customer-Key": "canary-of-a-customer",
        }}) else {
            panic!("the test's settings are a map")
        };
        assert_eq!(added_headers(&map).len(), 3);
        let sent = "canary-of-a-gateway no-transform, immutable canary-of-a-customer";
        assert_eq!(crate::secrecy::foreign_line(sent), "*** no-transform, immutable ***");
    }

    fn mistakes_in(settings: Value) -> Vec<String> {
        let Value::Object(map) = settings else { panic!("the test's settings are a map") };
        mistakes(TABLE, &map)
    }

    #[test]
    fn valid_settings_have_no_mistakes() {
        let settings = json!({"endpoints": ["a", "b"], "secret": {"env": "KEY"}, "style": "path"});
        assert_eq!(mistakes_in(settings), [""; 0]);
    }

    #[test]
    fn every_mistake_is_listed_with_its_key() {
        let all = mistakes_in(json!({"style": "odd", "colour": 1}));
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[0].starts_with("target.settings.endpoints: missing"));
        assert!(all[1].contains("found \"odd\", allowed: path, virtual"));
        assert!(all[2].starts_with("target.settings.colour: unknown key"));
    }

    #[test]
    fn a_line_break_in_a_text_is_refused() {
        let all = mistakes_in(json!({"endpoints": ["a", "b\r\nx-evil: 1"], "style": "path"}));
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(mistakes_in(json!({"endpoints": "a\n"})).len(), 1);
    }

    #[test]
    fn a_secret_is_refused_and_not_repeated() {
        let all = mistakes_in(json!({"endpoints": "a", "secret": "hunter2"}));
        assert_eq!(all.len(), 1);
        assert!(!all[0].contains("hunter2"), "{}", all[0]);
    }
}
