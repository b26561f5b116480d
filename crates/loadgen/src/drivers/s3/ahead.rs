//! Hashes the bodies of successive requests side by side: four together take little more than half
//! the time of four one after another.

use std::array::from_fn;

use loadstone_wire::digest::{LANES, SHA256_BLOCK_BYTES, Sha256Lanes};

use super::body::sha256;
use crate::cryptography::{Kind, spend};
use crate::transport::{
    socket::{Buffers, OUTPUT_BYTES},
    transfer::{Payload, Upload},
};

/// Bytes generated at a time of each body: all of them together fit into the output buffer.
const PIECE_BYTES: usize = OUTPUT_BYTES / LANES;
/// Longer bodies are hashed alone, because the thread's other clients wait meanwhile.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// Digests of numbered and versioned bodies, which are usually requested in order.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    known: Vec<(Numbered, [u8; 32])>,
    /// The next body, if bodies are requested in order, from number zero on.
    next: Option<Numbered>,
}

/// Version and number of a body.
type Numbered = (u64, u64);

impl Ahead {
    /// Returns the SHA-256 of a body. If bodies are currently requested in order, also hashes those
    /// of the next numbers in its version. `body` returns the body of any number in that version.
    pub(super) fn sha256<'a>(
        &mut self,
        (version, number): Numbered,
        body: impl Fn(u64) -> Payload<'a>,
        buffers: &Buffers,
    ) -> [u8; 32] {
        let next = self.next.replace((version, number + 1));
        let is_in_order = next.map_or(number == 0, |next| next == (version, number));
        if let Some(place) = self.known.iter().position(|(known, _)| *known == (version, number)) {
            return self.known.swap_remove(place).1;
        }
        self.known.clear();
        if !is_in_order || !Sha256Lanes::are_faster() {
            return sha256(&body(number), buffers);
        }
        let bodies: [Payload<'a>; LANES] = from_fn(|lane| body(number + lane as u64));
        if !fit(&bodies) {
            return sha256(&bodies[0], buffers);
        }
        let digests = side_by_side(&bodies, buffers);
        self.known.extend((number..).map(|number| (version, number)).zip(digests).skip(1));
        digests[0]
    }
}

/// Returns whether bodies can be hashed side by side. Encrypted ones cannot: they are generated in
/// an order of their own.
fn fit(bodies: &[Payload<'_>; LANES]) -> bool {
    let [first, others @ ..] = bodies;
    first.sealer.is_none()
        && (1..=AHEAD_BYTES_MAX).contains(&first.length)
        && others.iter().all(|other| other.length == first.length)
}

/// Hashes bodies of the same length.
fn side_by_side(bodies: &[Payload<'_>; LANES], buffers: &Buffers) -> [[u8; 32]; LANES] {
    let mut output = buffers.output.borrow_mut();
    let mut digests = Sha256Lanes::default();
    let mut offset = 0;
    loop {
        let left = usize::try_from(bodies[0].length - offset).expect("below the limit");
        let bytes = left.min(PIECE_BYTES);
        let pieces = output.payload(bytes * LANES);
        for (body, piece) in bodies.iter().zip(pieces.chunks_exact_mut(bytes)) {
            body.write(offset, piece);
        }
        let whole = bytes / SHA256_BLOCK_BYTES * SHA256_BLOCK_BYTES;
        let lanes: [(&[u8], &[u8]); LANES] =
            from_fn(|lane| pieces[lane * bytes..][..bytes].split_at(whole));
        spend(Kind::Hashing, || digests.update(lanes.map(|(blocks, _)| blocks)));
        offset += bytes as u64;
        if bytes == left {
            return spend(Kind::Hashing, || digests.finish(lanes.map(|(_, rest)| rest)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{ObjectId, PayloadSpec};

    /// Objects of the same length, except number 100.
    fn body(spec: &PayloadSpec, length: u64, number: u64) -> Payload<'_> {
        let length = if number == 100 { length + 1 } else { length };
        let object = ObjectId::new(number, 1, length);
        Payload { spec, sealer: None, object, start: 0, length }
    }

    fn alone(upload: &Payload<'_>) -> [u8; 32] {
        sha256(upload, &Buffers::default())
    }

    #[test]
    fn every_digest_is_right_in_any_order() {
        let spec = PayloadSpec::new([7; 16], 3, 0.0, 0.0);
        let numbers = [0, 1, 2, 3, 4, 9, 2, 97, 98, 99, 100, 101, 102, 103, 103];
        for length in [0, 1, 63, 64, 4096, PIECE_BYTES as u64, 100_001] {
            let (mut ahead, buffers) = (Ahead::default(), Buffers::default());
            for number in numbers {
                let body = |number| body(&spec, length, number);
                let digest = ahead.sha256((1, number), body, &buffers);
                assert_eq!(digest, alone(&body(number)), "{number} of {length}");
            }
        }
    }

    #[test]
    fn versions_of_one_number_are_distinguished() {
        let spec = PayloadSpec::new([7; 16], 3, 0.0, 0.0);
        let (mut ahead, buffers) = (Ahead::default(), Buffers::default());
        for (version, number) in [(1, 0), (2, 1), (1, 2), (2, 2), (2, 3), (1, 3)] {
            let body = |number| {
                let object = ObjectId::new(number, version, 4096);
                Payload { spec: &spec, sealer: None, object, start: 0, length: 4096 }
            };
            let digest = ahead.sha256((version, number), body, &buffers);
            assert_eq!(digest, alone(&body(number)), "{number} in version {version}");
        }
    }

    #[test]
    fn bodies_are_hashed_ahead_only_in_order() {
        let spec = PayloadSpec::new([7; 16], 3, 0.0, 0.0);
        let (mut ahead, buffers) = (Ahead::default(), Buffers::default());
        let mut known_after = |number| {
            ahead.sha256((1, number), |number| body(&spec, 4096, number), &buffers);
            ahead.known.len()
        };
        let numbers = [0, 5, 6, 7, 8, 9, 10, 3, 20, 96, 97, 98, 99, 100, 101];
        let expected = [3, 0, 3, 2, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3];
        let expected = if Sha256Lanes::are_faster() { expected } else { [0; 15] };
        assert_eq!(numbers.map(&mut known_after), expected);
    }
}
