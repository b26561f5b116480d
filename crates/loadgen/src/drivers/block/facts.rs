//! Facts about block devices and large files.

use crate::facts::{Address, AddressKind, Calibration, Facts, Form, StandIn};
use crate::operation::Operation;

pub(super) const FACTS: Facts = Facts {
    place: "file or device",
    address: Address { kind: AddressKind::Path, settings: &["path"] },
    words: &["block:PATH"],
    forms: &[Form::Named("path")],
    calibration: Some(Calibration {
        stand_in: StandIn::BlocksInMemory,
        settings: &[],
        usual: &[Operation::Write, Operation::Read],
        can: &[Operation::Write, Operation::Read],
        costs: &["direct", "engine", "fsync", "fsync_data", "dsync"],
    }),
    ..Facts::PLAIN
};
