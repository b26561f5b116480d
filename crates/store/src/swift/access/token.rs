//! Tokens: issued, looked at with every request, and at an end after their time.
//!
//! A token says itself when it was issued and when it ends, signed by the store, so that none has to be
//! kept: clients may log in as often as they like. What is kept is which ones were revoked.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::budget::{Budget, Reservation};
use crate::clock;
use crate::error::Refusal;
use crate::hex::hex;

/// Revoked tokens kept before those that have expired are looked for.
const SWEEP_SIZE: usize = 1024;
/// How tokens are had; a token names its place in this list.
const METHODS: [&str; 3] = ["password", "token", "application_credential"];
/// Bytes of what a token says: when it was issued and when it ends, how it was had, and chance.
const FACTS_BYTES: usize = 24;
const SIGNATURE_BYTES: usize = 16;
/// What a token that was revoked takes besides its name.
const REVOKED_BYTES: usize = 128;

/// The tokens of a store.
pub(in crate::swift) struct Tokens {
    lifetime_us: u64,
    /// Signs with a key of this store alone, so that a restart ends all tokens.
    signer: Hmac<Sha256>,
    budget: Arc<Budget>,
    /// Those that were ended before their time, and when they would have ended.
    revoked: RwLock<HashMap<Box<str>, (u64, Reservation)>>,
}

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swift) struct Token {
    pub(in crate::swift) issued_us: u64,
    pub(in crate::swift) expires_us: u64,
    /// How it was obtained: one of [`METHODS`].
    pub(in crate::swift) method: &'static str,
}

impl Tokens {
    pub(in crate::swift) fn new(lifetime_s: u64, budget: Arc<Budget>) -> Tokens {
        Tokens {
            lifetime_us: lifetime_s.saturating_mul(1_000_000),
            signer: Hmac::new_from_slice(&random::<32>()).expect("a key may have any length"),
            budget,
            revoked: RwLock::default(),
        }
    }

    /// Issues a token.
    pub(in crate::swift) fn issue(&self, prefix: &str, method: &'static str) -> (String, Token) {
        self.issue_at(prefix, method, clock::now_us())
    }

    fn issue_at(&self, prefix: &str, method: &'static str, now_us: u64) -> (String, Token) {
        let expires_us = now_us.saturating_add(self.lifetime_us);
        let place = METHODS.iter().position(|known| *known == method).unwrap_or_default();
        let mut facts = [0; FACTS_BYTES];
        facts[..8].copy_from_slice(&now_us.to_be_bytes());
        facts[8..16].copy_from_slice(&expires_us.to_be_bytes());
        facts[16] = place as u8;
        facts[17..].copy_from_slice(&random::<7>());
        let mut name = format!("{prefix}{}", hex(&facts));
        let signature = self.signed(&name).finalize().into_bytes();
        name.push_str(&hex(&signature[..SIGNATURE_BYTES]));
        (name, Token { issued_us: now_us, expires_us, method: METHODS[place] })
    }

    fn signed(&self, text: &str) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(text.as_bytes());
        signer
    }

    /// Returns a token that is still good.
    pub(in crate::swift) fn find(&self, name: &str) -> Option<Token> {
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
        let method = METHODS.get(usize::from(facts[16])).copied()?;
        let token = Token { issued_us: number(0), expires_us: number(8), method };
        let revoked = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        (token.expires_us > now_us && !revoked.contains_key(name)).then_some(token)
    }

    /// Ends a token before its time; returns whether it was good.
    ///
    /// # Errors
    /// The store has no memory left to remember it.
    pub(in crate::swift) fn revoke(&self, name: &str) -> Result<bool, Refusal> {
        self.revoke_at(name, clock::now_us())
    }

    fn revoke_at(&self, name: &str, now_us: u64) -> Result<bool, Refusal> {
        let Some(token) = self.find_at(name, now_us) else { return Ok(false) };
        let mut revoked = self.revoked.write().unwrap_or_else(PoisonError::into_inner);
        if revoked.len() >= SWEEP_SIZE && revoked.len().is_power_of_two() {
            revoked.retain(|_, (expires_us, _)| *expires_us > now_us);
        }
        let record = self.budget.reserve((REVOKED_BYTES + name.len()) as u64)?;
        revoked.insert(name.into(), (token.expires_us, record));
        Ok(true)
    }
}

/// Reads hexadecimal digits.
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
pub(in crate::swift) fn random_name() -> String {
    hex(&random::<16>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lifetime_s: u64) -> Tokens {
        Tokens::new(lifetime_s, Budget::new(1 << 20))
    }

    #[test]
    fn a_token_is_good_until_its_time_is_over_or_it_is_revoked() {
        let tokens = tokens(2);
        let (name, token) = tokens.issue_at("AUTH_tk", "token", 1_000_000);
        assert_eq!(tokens.find_at(&name, 2_999_999), Some(token));
        assert_eq!((token.method, token.expires_us), ("token", 3_000_000));
        assert!(tokens.find_at(&name, 3_000_000).is_none());
        assert!(tokens.revoke_at(&name, 1_000_000).unwrap());
        assert!(tokens.find_at(&name, 1_000_000).is_none());
        assert!(!tokens.revoke_at(&name, 1_000_000).unwrap());
    }

    #[test]
    fn a_token_that_the_store_has_not_issued_is_none() {
        let ours = tokens(1000);
        let (name, _) = ours.issue_at("AUTH_tk", "password", 1_000_000);
        assert!(tokens(1000).find_at(&name, 1_000_000).is_none(), "another store's");
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

    #[test]
    fn tokens_take_no_memory_and_revoked_ones_no_more_than_there_is() {
        let tokens = tokens(1);
        let end = |second: u64| {
            let (name, _) = tokens.issue_at("", "password", second * 1_000_000);
            tokens.revoke_at(&name, second * 1_000_000)
        };
        // Those that have expired do not pile up.
        for second in 0..5000 {
            assert!(end(second).unwrap());
        }
        assert!(tokens.budget.bytes() <= (SWEEP_SIZE as u64 + 1) * 256);
        let at_once = (0..10_000).map(|_| end(6000)).take_while(Result::is_ok).count();
        assert!((1000..5000).contains(&at_once), "{at_once}");
        assert!(tokens.budget.bytes() <= 1 << 20);
    }
}
