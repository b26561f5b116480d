//! Consistency of the facts about drivers: names of settings, words for targets, operations.

use std::collections::HashMap;

use loadstone_loadgen::drivers::{DRIVERS, DriverInfo};
use loadstone_loadgen::facts::{AddressKind, StandIn};
use loadstone_loadgen::settings::SettingKind;
use serde_json::{Map, Value, json};

fn kind_of(driver: &DriverInfo, setting: &str) -> SettingKind {
    let row = driver.settings.iter().find(|candidate| candidate.name == setting);
    row.unwrap_or_else(|| panic!("{} has no setting {setting}", driver.name)).kind
}

#[test]
fn facts_name_only_settings_that_the_driver_has() {
    for driver in DRIVERS {
        let facts = &driver.facts;
        for setting in facts.address.settings {
            kind_of(driver, setting);
        }
        assert_eq!(facts.address.settings.is_empty(), facts.address.kind == AddressKind::None);
        for variable in facts.environment.iter().copied().flatten() {
            let (setting, key) = variable.setting.split_once('.').unwrap_or((variable.setting, ""));
            let kind = kind_of(driver, setting);
            assert_eq!(kind == SettingKind::Map, !key.is_empty(), "{}", variable.name);
            // A setting that may be a secret is never copied by value.
            let may_be_secret = matches!(kind, SettingKind::Secret);
            assert!(variable.is_secret || !may_be_secret, "{}", variable.name);
        }
    }
}

#[test]
fn a_calibration_uses_operations_and_settings_of_the_driver() {
    for driver in DRIVERS {
        let Some(calibration) = &driver.facts.calibration else { continue };
        for operation in calibration.can.iter().chain(calibration.usual) {
            assert!(driver.can(*operation), "{}: {}", driver.name, operation.name());
        }
        assert!(calibration.usual.iter().all(|operation| calibration.can.contains(operation)));
        for setting in calibration.costs {
            kind_of(driver, setting);
            let default =
                driver.settings.iter().find(|row| row.name == *setting).map(|row| row.default);
            assert!(default.flatten().is_some(), "{}.{setting} needs a default", driver.name);
        }
        for (setting, text) in calibration.settings {
            let is_secret = kind_of(driver, setting) == SettingKind::Secret;
            assert_eq!(is_secret, *text == "{secret}", "{}.{setting}", driver.name);
        }
        let is_server = calibration.stand_in == StandIn::Server;
        assert_eq!(is_server, !calibration.settings.is_empty(), "{}", driver.name);
    }
}

#[test]
fn every_example_word_of_a_driver_names_that_driver() {
    for driver in DRIVERS {
        assert_eq!(driver.facts.words.is_empty(), driver.facts.forms.is_empty(), "{}", driver.name);
        for word in driver.facts.words {
            let read =
                DriverInfo::read_word(word).unwrap_or_else(|| panic!("{word} means nothing"));
            assert_eq!(read.driver, driver.name, "{word}");
            if let Some((setting, _)) = read.setting {
                kind_of(driver, setting);
            }
        }
    }
}

#[test]
fn a_url_is_recognised_by_path_or_port_and_otherwise_means_s3() {
    for (text, driver) in [
        ("http://a/auth/v1.0", "swift"),
        ("http://a:5000", "swift"),
        ("http://a:5000/v3", "swift"),
        ("https://a/identity/v3/", "swift"),
        ("http://a:50001", "s3"),
        ("http://a/v3x", "s3"),
        ("s3+http://a/v3", "s3"),
    ] {
        assert_eq!(DriverInfo::read_word(text).map(|word| word.driver), Some(driver), "{text}");
    }
    for text in ["", "rados:", "s3://bucket", "swift+ftp://a", "simulated", "nullx"] {
        assert_eq!(DriverInfo::read_word(text), None, "{text}");
    }
}

#[test]
fn secrets_of_the_environment_are_never_read() {
    for driver in DRIVERS {
        let variables = driver.facts.environment.iter().copied().flatten();
        let environ: HashMap<String, String> =
            variables.map(|variable| (variable.name.to_owned(), "hunter2".to_owned())).collect();
        for (name, value) in driver.from_environment(&Map::new(), &environ) {
            let is_taken = value == "hunter2" || value == json!({"ca_file": "hunter2"});
            assert_eq!(
                is_taken,
                kind_of(driver, &name) != SettingKind::Secret && value.get("env").is_none(),
                "{name}"
            );
        }
        let variables = driver.facts.environment.iter().copied().flatten();
        let given: Map<String, Value> = variables
            .filter_map(|variable| {
                Some((variable.setting.split('.').next()?.to_owned(), json!("own")))
            })
            .collect();
        let added = driver.from_environment(&given, &environ);
        assert!(added.keys().all(|name| !given.contains_key(name)), "{}: {added:?}", driver.name);
    }
}
