//! Tokens: issued, looked up with every request, and at an end after their time.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::clock;
use crate::hex::hex;

/// Tokens kept before those that have expired are looked for.
const SWEEP_SIZE: usize = 1024;

/// The tokens that were issued.
#[derive(Debug)]
pub(in crate::swift) struct Tokens {
    lifetime_us: u64,
    table: RwLock<HashMap<Box<str>, Token>>,
}

/// What is known of a token.
#[derive(Clone, Copy, Debug)]
pub(in crate::swift) struct Token {
    pub(in crate::swift) issued_us: u64,
    pub(in crate::swift) expires_us: u64,
    /// How it was obtained: `password`, `token` or `application_credential`.
    pub(in crate::swift) method: &'static str,
}

impl Tokens {
    pub(in crate::swift) fn new(lifetime_s: u64) -> Tokens {
        Tokens { lifetime_us: lifetime_s.saturating_mul(1_000_000), table: RwLock::default() }
    }

    /// Issues a token.
    pub(in crate::swift) fn issue(&self, prefix: &str, method: &'static str) -> (String, Token) {
        self.issue_at(prefix, method, clock::now_us())
    }

    fn issue_at(&self, prefix: &str, method: &'static str, now_us: u64) -> (String, Token) {
        let name = format!("{prefix}{}", random_name());
        let expires_us = now_us.saturating_add(self.lifetime_us);
        let token = Token { issued_us: now_us, expires_us, method };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= SWEEP_SIZE && table.len().is_power_of_two() {
            table.retain(|_, token| token.expires_us > now_us);
        }
        table.insert(name.as_str().into(), token);
        (name, token)
    }

    /// Returns a token that is still good.
    pub(in crate::swift) fn find(&self, name: &str) -> Option<Token> {
        self.find_at(name, clock::now_us())
    }

    fn find_at(&self, name: &str, now_us: u64) -> Option<Token> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(name).copied().filter(|token| token.expires_us > now_us)
    }

    /// Ends a token before its time; returns whether it was good.
    pub(in crate::swift) fn revoke(&self, name: &str) -> bool {
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }
}

/// Returns a name that cannot be guessed.
pub(in crate::swift) fn random_name() -> String {
    let mut bytes = [0u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(16), "the system's random numbers never run short of 16 bytes");
    hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_its_time_is_over_or_it_is_revoked() {
        let tokens = Tokens::new(2);
        let (name, _) = tokens.issue_at("AUTH_tk", "password", 1_000_000);
        assert!(tokens.find_at(&name, 2_999_999).is_some());
        assert!(tokens.find_at(&name, 3_000_000).is_none());
        assert!(tokens.find_at("AUTH_tkguess", 1_000_000).is_none());
        assert!(tokens.revoke(&name));
        assert!(tokens.find_at(&name, 1_000_000).is_none());
    }

    #[test]
    fn expired_tokens_do_not_pile_up() {
        let tokens = Tokens::new(1);
        for n in 0..5000 {
            tokens.issue_at("", "password", n * 1_000_000);
        }
        assert!(tokens.table.read().unwrap().len() <= SWEEP_SIZE + 1);
    }
}
