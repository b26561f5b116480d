//! Facts about directories.

use crate::facts::{Address, AddressKind, Calibration, Facts, Form, Limits, StandIn};
use crate::operation::Operation;

pub(super) const FACTS: Facts = Facts {
    encrypts_paths: true,
    reads_existing: true,
    tears: &[Operation::Put],
    place: "directory",
    address: Address { kind: AddressKind::Path, settings: &["path"] },
    words: &["file:PATH", "/PATH", "./PATH", "../PATH"],
    forms: &[Form::Named("path"), Form::Path("path")],
    limits: Limits {
        // PATH_MAX and NAME_MAX.
        key_bytes_max: Some(4095),
        name_bytes_max: Some(255),
        ..Limits::NONE
    },
    calibration: Some(Calibration {
        stand_in: StandIn::ObjectsInMemory,
        settings: &[],
        usual: &[Operation::Put, Operation::Get, Operation::Head, Operation::Delete],
        can: &[
            Operation::Put,
            Operation::Get,
            Operation::Head,
            Operation::Delete,
            Operation::Read,
            Operation::Write,
        ],
        costs: &["direct", "layout", "fsync", "fsync_data", "dsync"],
    }),
    ..Facts::PLAIN
};
