//! libFuzzer on one of the targets: `LOADSTONE_FUZZ=xml fuzz CORPUS…` (see `make fuzz`).

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use loadstone_fuzz::{TARGETS, Target};

static TARGET: OnceLock<&Target> = OnceLock::new();

fn named() -> &'static Target {
    let name = std::env::var("LOADSTONE_FUZZ").unwrap_or_default();
    if name == "parquet" {
        // Panics of the library are caught where tables are read, but libFuzzer's hook would abort.
        std::panic::set_hook(Box::new(|_| ()));
    }
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("LOADSTONE_FUZZ is \"{name}\", allowed: {}", names.join(", "))
    })
}

fuzz_target!(|data: &[u8]| (TARGET.get_or_init(named).run)(data));
