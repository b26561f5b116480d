//! Addresses that are signed and open for a time, without a token.

use hmac::{Hmac, KeyInit, Mac};
use http::{Method, StatusCode};

use crate::clock;
use crate::hex::hex;
use crate::swift::Swift;
use crate::swift::answer::Failure;
use crate::swift::call::{Call, Place};

/// Refuses a signed address that is wrong, over, or for another method.
pub(in crate::swift) fn check(
    swift: &Swift,
    call: &Call,
    place: &Place,
    signature: &str,
) -> Result<(), Failure> {
    let refused = || Failure::new(StatusCode::UNAUTHORIZED, "Temp URL invalid");
    let expires = call.parameter("temp_url_expires").unwrap_or_default();
    let expires_s =
        expires.parse().ok().or_else(|| clock::parse_iso(expires)).ok_or_else(refused)?;
    if expires_s <= clock::now_us() / 1_000_000 || place.object.is_empty() {
        return Err(refused());
    }
    if place.account != swift.account_name() {
        return Err(refused());
    }
    // Who may read or write an object may ask about it.
    let methods: &[&str] = match &call.method {
        &Method::HEAD => &["HEAD", "GET", "PUT"],
        method => &[method.as_str()],
    };
    let signature = &in_digits(signature).ok_or_else(refused)?;
    let is_signed = keys(swift, place).iter().any(|key| {
        methods.iter().any(|method| {
            let text = format!("{method}\n{expires_s}\n{}", call.path);
            digest(key, &text, signature.len())
                .is_some_and(|wanted| wanted.eq_ignore_ascii_case(signature))
        })
    });
    if is_signed { Ok(()) } else { Err(refused()) }
}

/// Returns a signature in hexadecimal digits, also one of the form `sha256:BASE64`.
fn in_digits(signature: &str) -> Option<String> {
    use base64::Engine;
    let Some((_, text)) = signature.split_once(':') else { return Some(signature.to_owned()) };
    let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(hex(&bytes))
}

/// Returns the keys of the account and of the container.
fn keys(swift: &Swift, place: &Place) -> Vec<String> {
    let container = swift.account.bucket(&place.container).map(|bucket| bucket.settings().metadata);
    swift
        .account
        .metadata()
        .into_iter()
        .chain(container.unwrap_or_default())
        .filter(|(name, _)| name == "temp-url-key" || name == "temp-url-key-2")
        .map(|(_, value)| value)
        .collect()
}

/// Returns the signature of the kind that has this many hexadecimal digits.
fn digest(key: &str, text: &str, digits: usize) -> Option<String> {
    macro_rules! sign {
        ($hash:ty) => {{
            let mut mac = Hmac::<$hash>::new_from_slice(key.as_bytes()).ok()?;
            mac.update(text.as_bytes());
            Some(hex(&mac.finalize().into_bytes()))
        }};
    }
    match digits {
        40 => sign!(sha1::Sha1),
        64 => sign!(sha2::Sha256),
        128 => sign!(sha2::Sha512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_hash_with_their_length() {
        let text = "GET\n1\n/v1/AUTH_a/c/o";
        let known = "7f1166d80d84a5d0a5dcb5b4a4bc2f8bc9ce9ab4";
        assert_eq!(digest("key", text, known.len()).unwrap().len(), 40);
        assert_eq!(digest("key", text, 64).unwrap().len(), 64);
        assert_ne!(digest("key", text, 64), digest("other", text, 64));
        assert_eq!(digest("key", text, 10), None);
    }
}
