//! Secrets that a controller sent to this host. They are held in memory and take precedence over
//! the host's own.

use std::collections::HashMap;
use std::sync::Mutex;

/// Values of references, by what they refer to.
#[derive(Default)]
pub struct Sent {
    /// Environment variables, by name.
    pub variables: HashMap<String, String>,
    /// Contents of files, by path.
    pub files: HashMap<String, String>,
}

static SENT: Mutex<Option<Sent>> = Mutex::new(None);

/// Keeps what a controller sent, replacing what it sent before.
///
/// The environment of the process is not changed, because programs that it starts would inherit it.
///
/// # Panics
/// Never: nothing panics while it holds the lock.
pub fn keep_sent(sent: Sent) {
    *SENT.lock().expect("the lock is not poisoned") = Some(sent);
}

pub(super) fn variable(name: &str) -> Option<String> {
    of(|sent| &sent.variables, name)
}

pub(super) fn file(path: &str) -> Option<String> {
    of(|sent| &sent.files, path)
}

fn of(kind: fn(&Sent) -> &HashMap<String, String>, name: &str) -> Option<String> {
    let sent = SENT.lock().expect("the lock is not poisoned");
    sent.as_ref().and_then(|sent| kind(sent).get(name).cloned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::credentials::resolve;

    #[test]
    fn sent_secrets_take_precedence_and_match_only_their_name() {
        let Value::Object(settings) = json!({
            "key": {"env": "LOADSTONE_TEST_SENT"},
            "password": {"file": "/nowhere/sent"},
            "other": {"env": "LOADSTONE_TEST_UNSENT"},
        }) else {
            panic!("it is a map")
        };
        let resolve = |key: &str| resolve(&settings as &Map<String, Value>, key);
        assert!(resolve("key").is_err());
        keep_sent(Sent {
            variables: HashMap::from([("LOADSTONE_TEST_SENT".into(), "first".into())]),
            files: HashMap::from([("/nowhere/sent".into(), "second\n".into())]),
        });
        assert_eq!(resolve("key").unwrap().as_deref(), Some("first"));
        assert_eq!(resolve("password").unwrap().as_deref(), Some("second"));
        assert!(resolve("other").is_err());
        assert!(std::env::var("LOADSTONE_TEST_SENT").is_err());
        keep_sent(Sent::default());
        assert!(resolve("key").is_err());
    }
}
