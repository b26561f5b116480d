//! Derives all keys from the run and the seed. Anyone who has the record can derive them again.

use aws_lc_rs::digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};

use crate::payload::PayloadSpec;

/// Derives the keys of one run and seed.
pub(crate) struct KeySource(Prk);

/// Number of bytes to derive.
pub(super) struct Length(pub(super) usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl KeySource {
    pub(crate) fn of(spec: &PayloadSpec) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"loadstone test key");
        context.update(&spec.run);
        context.update(&spec.seed.to_le_bytes());
        Self(Prk::new_less_safe(HKDF_SHA256, context.finish().as_ref()))
    }

    /// Derives a key from a label and three numbers.
    pub(crate) fn derive<const BYTES: usize>(
        &self,
        label: &[u8],
        numbers: [u64; 3],
    ) -> [u8; BYTES] {
        let numbers = numbers.map(u64::to_le_bytes);
        let info = [label, &numbers[0], &numbers[1], &numbers[2]];
        let mut out = [0; BYTES];
        let made = self.0.expand(&info, Length(BYTES)).and_then(|made| made.fill(&mut out));
        made.expect("a few hashes' worth");
        out
    }
}
