//! Tokens: issued, checked with every request, and expired after their lifetime.
//!
//! A token contains its times of issue and expiry, signed by the store, so that the store need not
//! keep it: clients may log in as often as they like.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::clock;
use crate::hex::hex;

/// Length of a token's content: times of issue and expiry, and random bytes.
const FACTS_BYTES: usize = 24;
const SIGNATURE_BYTES: usize = 16;

/// The tokens of a store.
pub(super) struct Tokens {
    lifetime_us: u64,
    /// Signs with a key of this store only, so that a restart invalidates all tokens.
    signer: Hmac<Sha256>,
}

/// Content of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) issued_us: u64,
    pub(super) expires_us: u64,
}

impl Tokens {
    pub(super) fn new(lifetime_s: u64) -> Tokens {
        Tokens {
            lifetime_us: lifetime_s.saturating_mul(1_000_000),
            signer: Hmac::new_from_slice(&random::<32>()).expect("a key may have any length"),
        }
    }

    /// Issues a token.
    pub(super) fn issue(&self, prefix: &str) -> (String, Token) {
        self.issue_at(prefix, clock::now_us())
    }

    fn issue_at(&self, prefix: &str, now_us: u64) -> (String, Token) {
        let expires_us = now_us.saturating_add(self.lifetime_us);
        let mut facts = [0; FACTS_BYTES];
        facts[..8].copy_from_slice(&now_us.to_be_bytes());
        facts[8..16].copy_from_slice(&expires_us.to_be_bytes());
        facts[16..].copy_from_slice(&random::<8>());
        let mut name = format!("{prefix}{}", hex(&facts));
        let signature = self.signed(&name).finalize().into_bytes();
        name.push_str(&hex(&signature[..SIGNATURE_BYTES]));
        (name, Token { issued_us: now_us, expires_us })
    }

    fn signed(&self, text: &str) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(text.as_bytes());
        signer
    }

    /// Returns a token if it is valid.
    pub(super) fn find(&self, name: &str) -> Option<Token> {
        self.find_at(name, clock::now_us())
    }

    fn find_at(&self, name: &str, now_us: u64) -> Option<Token> {
        let (text, signature) =
            name.split_at_checked(name.len().checked_sub(2 * SIGNATURE_BYTES)?)?;
        let (_, facts) = text.split_at_checked(text.len().checked_sub(2 * FACTS_BYTES)?)?;
        let signature = bytes_of::<SIGNATURE_BYTES>(signature)?;
        self.signed(text).verify_truncated_left(&signature).ok()?;
        let facts = bytes_of::<FACTS_BYTES>(facts)?;
        let number =
            |at: usize| facts[at..at + 8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let token = Token { issued_us: number(0), expires_us: number(8) };
        (token.expires_us > now_us).then_some(token)
    }
}

/// Parses hexadecimal digits.
fn bytes_of<const LENGTH: usize>(digits: &str) -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8;
    }
    Some(bytes)
}

fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(LENGTH), "the system's random numbers never run short of so few bytes");
    bytes
}

/// Returns a name that cannot be guessed.
pub(super) fn random_name() -> String {
    hex(&random::<16>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let tokens = Tokens::new(2);
        let (name, token) = tokens.issue_at("AUTH_tk", 1_000_000);
        assert_eq!(tokens.find_at(&name, 2_999_999), Some(token));
        assert_eq!(token.expires_us, 3_000_000);
        assert!(tokens.find_at(&name, 3_000_000).is_none());
    }

    #[test]
    fn a_token_that_the_store_has_not_issued_is_refused() {
        let ours = Tokens::new(1000);
        let (name, _) = ours.issue_at("AUTH_tk", 1_000_000);
        assert!(Tokens::new(1000).find_at(&name, 1_000_000).is_none(), "another store's");
        for at in 0..name.len() {
            let mut changed = name.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(ours.find_at(&changed, 1_000_000).is_none(), "{changed}");
        }
        for length in 0..name.len() {
            assert!(ours.find_at(&name[..length], 1_000_000).is_none());
            assert!(ours.find_at(&name[name.len() - length..], 1_000_000).is_none());
        }
        assert!(ours.find_at(&"é".repeat(60), 1_000_000).is_none());
    }
}
