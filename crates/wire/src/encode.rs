//! Writes numbers, percent-encoding and hexadecimal into a buffer without the formatter.

const UNRESERVED: u8 = 1;
const SLASH: u8 = 2;

/// Characters that need no encoding: RFC 3986 unreserved, and separately the slash.
const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        if character.is_ascii_alphanumeric() || matches!(character, b'-' | b'.' | b'_' | b'~') {
            table[byte] = UNRESERVED;
        } else if character == b'/' {
            table[byte] = SLASH;
        }
        byte += 1;
    }
    table
};

const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";
const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";

/// Writes a number in decimal.
pub fn write_number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Percent-encodes a path; slashes are kept.
pub fn write_path(out: &mut Vec<u8>, path: &[u8]) {
    encode(out, path, UNRESERVED | SLASH);
}

/// Percent-encodes the name or the value of a query parameter, including slashes.
pub fn write_query_part(out: &mut Vec<u8>, part: &[u8]) {
    encode(out, part, UNRESERVED);
}

/// Writes a query from parameters; one without a value is written as its bare name.
///
/// The parameters must be sorted by name, as Signature Version 4 requires.
pub fn write_query(out: &mut Vec<u8>, parameters: &[(&str, Option<&[u8]>)]) {
    debug_assert!(
        parameters.is_sorted_by(|first, second| first.0 <= second.0),
        "query parameters must be sorted, or the signature will not match"
    );
    for (position, (name, value)) in parameters.iter().enumerate() {
        if position > 0 {
            out.push(b'&');
        }
        write_query_part(out, name.as_bytes());
        if let Some(value) = value {
            out.push(b'=');
            write_query_part(out, value);
        }
    }
}

fn encode(out: &mut Vec<u8>, bytes: &[u8], allowed: u8) {
    if bytes.iter().all(|&byte| CLASS[usize::from(byte)] & allowed != 0) {
        out.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        if CLASS[usize::from(byte)] & allowed != 0 {
            out.push(byte);
        } else {
            let [high, low] = digits(byte, HEX_UPPER);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

/// Decodes a URL-encoded text, with a plus for a space; `None` if the encoding is invalid.
#[must_use]
pub fn decode_url(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Writes bytes as lower-case hexadecimal digits.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.extend_from_slice(&digits(byte, HEX_LOWER));
    }
}

/// Returns a SHA-256 digest as 64 lower-case hexadecimal digits.
pub fn hex_of_sha256(digest: &[u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    for (pair, &byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = digits(byte, HEX_LOWER);
    }
    text
}

const fn digits(byte: u8, alphabet: &[u8; 16]) -> [u8; 2] {
    [alphabet[(byte >> 4) as usize], alphabet[(byte & 15) as usize]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_path_keeps_its_slashes_and_encodes_the_rest() {
        assert_eq!(written(|out| write_path(out, "/a b/ü+~-._*'()".as_bytes())), {
            "/a%20b/%C3%BC%2B~-._%2A%27%28%29"
        });
        assert_eq!(written(|out| write_path(out, b"/plain/key-1")), "/plain/key-1");
    }

    #[test]
    fn a_query_part_encodes_slashes_and_every_other_byte() {
        assert_eq!(written(|out| write_query_part(out, b"a/b=c&d\0\xff")), "a%2Fb%3Dc%26d%00%FF");
    }

    #[test]
    fn decoding_reverses_encoding() {
        let text = "a/b=c&d\0 +%ü\u{1}";
        assert_eq!(decode_url(&written(|out| write_path(out, text.as_bytes()))).unwrap(), text);
        assert_eq!(decode_url("a+b%2b%2B").unwrap(), "a b++");
        for wrong in ["%", "%4", "50%zz", "%ff", "%+1"] {
            assert_eq!(decode_url(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_query_names_parameters_without_values_bare() {
        let query = [("acl", None), ("prefix", Some(b"a b".as_slice())), ("z", Some(b""))];
        assert_eq!(written(|out| write_query(out, &query)), "acl&prefix=a%20b&z=");
    }

    #[test]
    fn hexadecimal_is_lower_case_with_leading_zeros() {
        assert_eq!(written(|out| write_hex(out, &[0, 0x9f, 0xff])), "009fff");
        let mut digest = [0; 32];
        digest[31] = 0xa5;
        assert!(hex_of_sha256(&digest).ends_with(b"00a5"));
    }
}
