//! The settings of a target of driver `rados`: cluster, user, pool and options.

use serde_json::{Map, Value};

use crate::drivers::rados::facts::FACTS;
use crate::settings::{Setting, SettingKind, mistakes, pairs, text};
use crate::trial::Trial;

/// Options that would contain a secret.
const SECRET_OPTIONS: &[&str] = &["key"];

const fn setting(name: &'static str, default: Option<&'static str>, help: &'static str) -> Setting {
    Setting { name, kind: SettingKind::Text, required: false, default, help }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { required: true, ..setting("pool", None, "the pool, which must exist") },
    setting("conf", None, "the Ceph configuration file; Ceph's default places when absent"),
    setting("keyring", None, "the keyring; the configuration's when absent"),
    setting("user", Some("client.admin"), "who connects; \"client.\" may be left out"),
    setting("cluster", Some("ceph"), "the cluster's name"),
    Setting {
        kind: SettingKind::Number,
        ..setting("instances", Some("1"), "connections to the cluster, shared by the clients")
    },
    Setting {
        kind: SettingKind::Map,
        ..setting("options", None, "options of Ceph for this client, over the configuration's")
    },
];

/// How to reach a cluster, and which of its pools.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) pool: String,
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) conf: Option<String>,
    pub(super) keyring: Option<String>,
    pub(super) instances: usize,
    pub(super) options: Vec<(String, String)>,
}

impl Access {
    pub(super) fn of(settings: &Map<String, Value>) -> Self {
        let owned = |key| text(settings, key).map(str::to_owned);
        let user = text(settings, "user").unwrap_or("client.admin");
        Self {
            pool: owned("pool").unwrap_or_default(),
            cluster: owned("cluster").unwrap_or_else(|| "ceph".into()),
            // Accepts the values of both --id and --name of Ceph's commands.
            user: if user.contains('.') { user.into() } else { format!("client.{user}") },
            conf: owned("conf"),
            keyring: owned("keyring"),
            instances: instances(settings).unwrap_or(1),
            options: pairs(settings, "options"),
        }
    }
}

fn instances(settings: &Map<String, Value>) -> Option<usize> {
    settings.get("instances")?.as_u64().and_then(|count| usize::try_from(count).ok())
}

/// Returns every mistake of a trial that this driver can find.
pub(super) fn check(trial: &Trial) -> Vec<String> {
    let settings = &trial.target.settings;
    let mut problems = mistakes(SETTINGS, settings);
    if let Some(given) = settings.get("instances").filter(|value| value.is_number())
        && !instances(settings).is_some_and(|count| (1..=1024).contains(&count))
    {
        problems.push(format!("target.settings.instances: found {given}, allowed: 1 to 1024"));
    }
    for (name, _) in pairs(settings, "options") {
        if SECRET_OPTIONS.contains(&name.replace([' ', '-'], "_").as_str()) {
            problems.push(format!(
                "target.settings.options.{name}: a secret does not belong here; name a file in \
                 \"keyring\""
            ));
        }
    }
    let largest = trial.dataset.size.max();
    if let Some(allowed) = FACTS.limits.object_bytes_max.filter(|most| largest > *most) {
        problems.push(format!(
            "dataset.size: found up to {largest} bytes, allowed: {allowed} (what a \
             cluster takes as one object; see osd_max_object_size)"
        ));
    }
    problems
}
