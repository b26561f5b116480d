//! Facts about pools of a Ceph cluster.

use serde_json::json;

use crate::facts::{Address, AddressKind, Facts, Filling, Form, Limits, Variable};

/// Options that Ceph's own commands read from `CEPH_ARGS` first; librados reads the rest.
const ARGUMENTS: &[Variable] = &[
    Variable::argument("CEPH_ARGS", "--conf", "conf"),
    Variable::argument("CEPH_ARGS", "-c", "conf"),
    Variable::argument("CEPH_ARGS", "--name", "user"),
    Variable::argument("CEPH_ARGS", "-n", "user"),
    Variable::argument("CEPH_ARGS", "--id", "user"),
    Variable::argument("CEPH_ARGS", "--user", "user"),
    Variable::argument("CEPH_ARGS", "--cluster", "cluster"),
    Variable::argument("CEPH_ARGS", "--keyring", "keyring"),
    Variable::argument("CEPH_ARGS", "-k", "keyring"),
];
const CONF: &[Variable] = &[Variable::new("CEPH_CONF", "conf")];

pub(super) const FACTS: Facts = Facts {
    encrypts_paths: true,
    reads_existing: true,
    place: "namespace",
    address: Address { kind: AddressKind::Name, settings: &["pool"] },
    is_ceph_pool: true,
    words: &["rados:POOL"],
    forms: &[Form::Named("pool")],
    environment: &[ARGUMENTS, CONF],
    fill,
    limits: Limits {
        // librados sends an object whole, and a cluster accepts no more unless its
        // osd_max_object_size was raised.
        object_bytes_max: Some(128 << 20),
        // osd_max_object_name_len
        key_bytes_max: Some(2048),
        ..Limits::NONE
    },
    ..Facts::PLAIN
};

/// Reads `--id admin`, `--id=admin` and the like; the last of several occurrences counts. Other
/// options do not describe a target.
fn fill(filling: &mut Filling<'_>) {
    // Ceph's own commands will report an unclosed quotation mark.
    let words = filling.variable("CEPH_ARGS").and_then(shlex::split).unwrap_or_default();
    for (number, word) in words.iter().enumerate().rev() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), words.get(number + 1).map(String::as_str)),
        };
        let variable = ARGUMENTS.iter().find(|variable| variable.argument == Some(name));
        if let (Some(variable), Some(value)) = (variable, value) {
            filling.add(variable.setting, json!(value));
        }
    }
    filling.fill(CONF);
}
