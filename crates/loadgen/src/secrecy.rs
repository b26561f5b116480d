//! Makes text from targets and other programs safe for records and terminals: removes secrets and
//! control characters.
//!
//! A server may send back what it received, whole or in part, and encoded. So each secret is
//! searched for in every encoding that a server may use, and in parts: any sequence of
//! [`PART_BYTES`] bytes that also occurs in a secret is blotted. Blot first and cut afterwards: the
//! rest of a secret after a cut may be too short to recognise.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Replaces a secret.
const HIDDEN: &str = "***";
/// A common sequence of this many bytes counts as part of a secret.
pub const PART_BYTES: usize = 8;
/// Maximum length, in characters, of text that may contain data from the target.
const TOLD_CHARACTERS: usize = 2000;
/// Shorter secrets are ignored, because they would match in unrelated words.
const SHORTEST_BYTES: usize = 4;
/// A base64 secret that decodes to this many bytes is an encryption key, which a server may echo as raw bytes.
const KEY_BYTES: RangeInclusive<usize> = 16..=64;
/// The name that our own messages, buckets and files hold. A secret that contains it is searched for
/// as a whole, and only the rest of it in parts; otherwise it would blot all of them.
const OWN_NAME: &[u8] = b"loadstone";
/// Replaces a name that may be a secret.
const UNNAMED: &str = "of the name that is given (not repeated: it may be the secret itself)";
/// Replaces a terminal control character.
const CONTROL: char = '\u{fffd}';

/// How many of the latest secrets of one place are remembered, at least. A server may send back a
/// secret that is no longer valid for the client, for example that of a request in flight. Tokens
/// are renewed at most once a second.
const RENEWALS: usize = 256;
/// When the secrets of one place have this many parts, at about 20 bytes each, fewer secrets are
/// remembered, but at least the last two: a server may create tokens as long as a head.
const PARTS_MAX: usize = 1 << 21;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Remembers a secret, which is then masked in all output of this process. `place` is its source: a
/// file, or a user's login. The oldest secrets of a place are forgotten; otherwise short-lived tokens
/// would fill the memory.
pub(crate) fn remember(place: &str, secret: &str) {
    KNOWN.lock().expect("the lock is not poisoned").add(place, secret);
}

/// Returns a target's message as one line for users.
pub fn foreign_line(text: &str) -> String {
    plain(&blot_known(text)).replace(['\n', '\t'], " ")
}

/// Returns a text that may contain data from the target; line breaks are ours. Data whose length
/// the target chooses, such as keys and tokens of listings, is cut.
pub(crate) fn foreign_text(text: &str) -> String {
    let known = KNOWN.lock().expect("the lock is not poisoned");
    blotted_and_cut(text, |part| known.blot(part))
}

/// Blots and cuts a text, without searching more of it than necessary.
fn blotted_and_cut(text: &str, blot: impl Fn(&str) -> String) -> String {
    let mut seen_bytes = 2 * TOLD_CHARACTERS;
    loop {
        let end = seen_bytes.min(text.len());
        let end = (end..).find(|at| text.is_char_boundary(*at)).expect("its end is one");
        let blotted = plain(&blot(&text[..end]));
        // A remaining part of a secret at the end may be too short to recognise.
        let is_enough = blotted.chars().nth(TOLD_CHARACTERS + PART_BYTES).is_some();
        if is_enough || end == text.len() {
            return cut(&blotted, TOLD_CHARACTERS).into_owned();
        }
        // Blotting shortens the text.
        seen_bytes *= 8;
    }
}

fn blot_known(text: &str) -> String {
    KNOWN.lock().expect("the lock is not poisoned").blot(text)
}

/// Returns the name of an environment variable for a message. A possible secret in place of the
/// name is not repeated: names of variables that hold secrets consist of capital letters and
/// underscores.
#[must_use]
pub fn variable_named(name: &str) -> String {
    let is_name = name.contains('_')
        && name
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if is_name { format!("\"{name}\"") } else { UNNAMED.to_owned() }
}

/// Returns the name of a file for a message that it cannot be read. A possible secret in place of
/// the path is not repeated: for a real path, the file or at least its first folder exists.
#[must_use]
pub fn file_named(path: &str) -> String {
    let path = Path::new(path);
    let mut begin = PathBuf::new();
    for part in path.components() {
        begin.push(part);
        if part != Component::RootDir {
            break;
        }
    }
    if path.exists() || (begin != path && begin.is_dir()) {
        format!("\"{}\"", path.display())
    } else {
        UNNAMED.to_owned()
    }
}

/// Replaces every character that could control a terminal, except line breaks and tabs.
#[must_use]
pub fn plain(text: &str) -> String {
    // Replaced, not removed, so that the characters around them are not joined.
    text.replace("\r\n", "\n")
        .chars()
        .map(|character| if steers(character) { CONTROL } else { character })
        .collect()
}

/// Returns whether a character moves the cursor, changes colours or reorders other characters.
fn steers(character: char) -> bool {
    let is_direction = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (character.is_control() && character != '\n' && character != '\t') || is_direction
}

/// Returns a text in which secrets, and parts of them, are blotted out.
#[must_use]
pub fn blot<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let mut known = Secrets::default();
    secrets.into_iter().for_each(|secret| known.add(secret));
    blot_with(text, [&known])
}

/// The secrets of this process, by source.
#[derive(Default)]
struct Known(HashMap<String, Succession>);

impl Known {
    fn add(&mut self, place: &str, secret: &str) {
        match self.0.get_mut(place) {
            Some(succession) => succession.add(secret),
            None => self.0.entry(place.to_owned()).or_default().add(secret),
        }
    }

    fn blot(&self, text: &str) -> String {
        blot_with(text, self.0.values().flat_map(|place| [&place.last.known, &place.before.known]))
    }
}

/// The successive secrets of one source. When there are too many, the older half is dropped.
#[derive(Default)]
struct Succession {
    last: Generation,
    before: Generation,
}

/// A generation of successive secrets.
#[derive(Default)]
struct Generation {
    secrets: HashSet<String>,
    known: Secrets,
}

impl Succession {
    fn add(&mut self, secret: &str) {
        // Most sources return the same secret repeatedly.
        if self.last.secrets.contains(secret) {
            return;
        }
        if self.last.secrets.len() >= RENEWALS || self.last.known.parts.len() >= PARTS_MAX / 2 {
            self.before = std::mem::take(&mut self.last);
        }
        self.last.known.add(secret);
        self.last.secrets.insert(secret.to_owned());
    }
}

/// Search patterns: the parts of each form of each secret. They are computed once, because a long
/// run gets many tokens and has many texts.
#[derive(Default)]
struct Secrets {
    /// Every sequence of [`PART_BYTES`] bytes of the longer forms, in lower case.
    parts: HashSet<[u8; PART_BYTES]>,
    /// The forms that are shorter than that, or contain [`OWN_NAME`].
    words: BTreeSet<Vec<u8>>,
}

impl Secrets {
    fn add(&mut self, secret: &str) {
        if secret.len() < SHORTEST_BYTES {
            return;
        }
        let key = STANDARD.decode(secret).ok().filter(|key| KEY_BYTES.contains(&key.len()));
        for form in
            forms_of(secret.as_bytes()).into_iter().chain(key.iter().flat_map(|key| forms_of(key)))
        {
            let form = form.to_ascii_lowercase();
            for rest in without_own_name(&form) {
                let parts = rest.windows(PART_BYTES);
                self.parts.extend(
                    parts.map(|part| <[u8; PART_BYTES]>::try_from(part).expect("its length")),
                );
            }
            if form.len() < PART_BYTES || position_of_own_name(&form).is_some() {
                self.words.insert(form);
            }
        }
    }

    /// Marks the parts of these secrets in a text in lower case.
    fn mark(&self, bytes: &[u8], is_hidden: &mut [bool]) {
        for (start, window) in bytes.windows(PART_BYTES).enumerate() {
            if self.parts.contains(window) {
                is_hidden[start..start + PART_BYTES].fill(true);
            }
        }
        for word in &self.words {
            for (start, window) in bytes.windows(word.len()).enumerate() {
                if window == word.as_slice() {
                    is_hidden[start..start + word.len()].fill(true);
                }
            }
        }
    }
}

/// Returns the pieces of a form between occurrences of our own name.
fn without_own_name(form: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut left) = (Vec::new(), form);
    while let Some(at) = position_of_own_name(left) {
        pieces.push(&left[..at]);
        left = &left[at + OWN_NAME.len()..];
    }
    pieces.push(left);
    pieces
}

fn position_of_own_name(form: &[u8]) -> Option<usize> {
    form.windows(OWN_NAME.len()).position(|part| part == OWN_NAME)
}

fn blot_with<'a>(text: &str, all: impl IntoIterator<Item = &'a Secrets>) -> String {
    let bytes = text.as_bytes().to_ascii_lowercase();
    let mut is_hidden = vec![false; bytes.len()];
    for secrets in all {
        if !secrets.parts.is_empty() || !secrets.words.is_empty() {
            secrets.mark(&bytes, &mut is_hidden);
        }
    }
    without(text, &is_hidden)
}

/// Returns a text with one mark for each sequence of hidden bytes.
fn without(text: &str, is_hidden: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut was_hidden = false;
    for (start, one) in text.char_indices() {
        let is_now = is_hidden[start..start + one.len_utf8()].contains(&true);
        match (was_hidden, is_now) {
            (_, false) => out.push(one),
            (false, true) => out.push_str(HIDDEN),
            (true, true) => {}
        }
        was_hidden = is_now;
    }
    out
}

/// Returns a secret in all encodings in which a server may send it back.
fn forms_of(secret: &[u8]) -> BTreeSet<Vec<u8>> {
    #[cfg(test)]
    tests::FORMED.with(|count| count.set(count.get() + 1));
    let mut forms: BTreeSet<Vec<u8>> = [
        percent(secret, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)),
        percent(secret, |byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte)),
        percent(secret, |byte| byte.is_ascii_graphic() && !b"%\"<>\\^`{|}#?".contains(&byte)),
        percent(secret, |byte| byte.is_ascii_alphanumeric() || b"-._* ".contains(&byte))
            .replace(' ', "+"),
        secret.iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        }),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect();
    for text in texts_of(secret) {
        forms.extend(quoted_forms(&text).map(String::into_bytes));
    }
    // Inside a longer text (`user:password`), it begins at one of three positions in a base64
    // group. The characters at both ends depend on the neighbouring bytes.
    for shift in 0..3 {
        let shifted = [&b"\0\0\0"[..shift], secret].concat();
        let (first, last) = (usize::from(shift > 0) + shift, shifted.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            if let Some(middle) =
                text.get(first..last).filter(|middle| middle.len() >= SHORTEST_BYTES)
            {
                forms.insert(middle.as_bytes().to_vec());
            }
        }
    }
    forms
}

/// Returns the texts as which a secret may be printed. Bytes that are not UTF-8 are printed with
/// replacement characters, or as Latin-1.
fn texts_of(secret: &[u8]) -> Vec<String> {
    match str::from_utf8(secret) {
        Ok(text) => vec![text.to_owned()],
        Err(_) => vec![
            String::from_utf8_lossy(secret).into_owned(),
            secret.iter().copied().map(char::from).collect(),
        ],
    }
}

/// Returns a text unchanged, and as escaped in JSON and XML.
fn quoted_forms(text: &str) -> impl Iterator<Item = String> {
    let in_xml = |quote, apostrophe| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe)
    };
    [
        text.to_owned(),
        in_json(text, false),
        in_json(text, true),
        in_json(text, true).replace('/', "\\/"),
        in_json(text, false).replace('/', "\\/"),
        in_xml("\"", "'"),
        in_xml("&quot;", "'"),
        in_xml("&quot;", "&#39;"),
        in_xml("&#34;", "&#39;"),
        in_xml("&quot;", "&#x27;"),
        in_xml("&quot;", "&apos;"),
    ]
    .into_iter()
}

fn percent(secret: &[u8], stays: impl Fn(u8) -> bool) -> String {
    let mut out = String::new();
    for &byte in secret {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Escapes a text for a JSON string; with `is_ascii`, also all characters that are not ASCII.
fn in_json(secret: &str, is_ascii: bool) -> String {
    let quoted = serde_json::to_string(secret).expect("a text");
    let inside = &quoted[1..quoted.len() - 1];
    let mut out = String::new();
    for character in inside.chars() {
        let is_escaped = is_ascii && (!character.is_ascii() || "<>&'".contains(character));
        if is_escaped {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Cuts a blotted text to a maximum number of characters.
pub(crate) fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{} …", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    std::thread_local! {
        /// Counts how often the forms of a secret were computed.
        pub(super) static FORMED: Cell<usize> = const { Cell::new(0) };
    }

    const SECRET: &str = "p/w+\"<ü&'%5> cat\\nary";

    /// Returns the longest part of a secret that a text contains.
    fn left(text: &str, secret: &str) -> usize {
        let starts = || secret.char_indices().map(|(start, _)| start);
        let ends = |start| {
            secret[start..]
                .char_indices()
                .map(move |(at, character)| start + at + character.len_utf8())
        };
        starts()
            .flat_map(|start| ends(start).map(move |end| (start, end)))
            .filter(|(start, end)| text.contains(&secret[*start..*end]))
            .map(|(start, end)| end - start)
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn every_encoding_of_a_secret_is_blotted() {
        for form in forms_of(SECRET.as_bytes()) {
            let form = String::from_utf8(form).expect("forms are texts");
            let blotted = blot(&format!("you sent '{form}', which is wrong"), [SECRET]);
            assert!(!blotted.contains(&form), "{form}: {blotted}");
            assert!(blotted.contains(HIDDEN) && blotted.contains("which is wrong"), "{blotted}");
        }
    }

    #[test]
    fn base64_of_user_and_password_is_blotted_at_any_offset() {
        let secret = "canary-8d1f0b6ac3e94d72";
        for user in ["", "a", "ab", "abc", "abcd"] {
            for end in ["", "x", "xy"] {
                let text = STANDARD_NO_PAD.encode(format!("{user}{secret}{end}"));
                let blotted = blot(&text, [secret]);
                let bare = blotted.replace(HIDDEN, "");
                assert!(bare.len() <= text.len() - secret.len(), "{user}, {end}: {text} {blotted}");
            }
        }
    }

    #[test]
    fn a_base64_key_is_also_blotted_as_raw_bytes() {
        let printable = b"canary/of <32> \"printable\" bytes".as_slice();
        let bytes: Vec<u8> = (0..32_u8).map(|number| number.wrapping_mul(37) ^ 0xa5).collect();
        for key in [printable, &bytes] {
            for form in forms_of(key) {
                let text = String::from_utf8(form).expect("forms are texts");
                let masked = blot(&format!("<{text}>"), [STANDARD.encode(key).as_str()]);
                assert_eq!(masked, "<***>", "{text}");
            }
        }
    }

    #[test]
    fn any_eight_bytes_of_a_secret_are_blotted() {
        let secret = "0123456789abcdefghij";
        for start in 0..=secret.len() - PART_BYTES {
            for end in start + PART_BYTES..=secret.len() {
                let blotted = blot(&format!("<{}>", &secret[start..end]), [secret]);
                assert_eq!(blotted, "<***>");
            }
        }
        assert!(left("x0123456y", secret) < PART_BYTES);
    }

    #[test]
    fn a_secret_with_our_own_name_leaves_our_own_texts() {
        for secret in ["loadstone-canary-8d1f0b6a", "canary-of-Loadstone", "loadstone-1"] {
            let ours = "bucket \"loadstone-sweep-1\": loadstone did not make it";
            assert_eq!(blot(ours, [secret]), ours);
            assert_eq!(blot(&format!("you sent '{secret}'"), [secret]), "you sent '***'");
        }
        assert_eq!(blot("<canary-8d1f0b6a>", ["loadstone-canary-8d1f0b6a"]), "<***>");
    }

    #[test]
    fn the_forms_of_a_secret_are_computed_once() {
        let token = |number| format!("token-{number:04}-of-a-log-in");
        let begin = FORMED.get();
        for number in 0..100 {
            remember("one log-in", &token(number));
            // Each log-in has messages, in which all previous tokens are searched for.
            for before in [0, number / 2, number] {
                let line = foreign_line(&format!("you sent '{}'", token(before)));
                assert_eq!(line, "you sent '***'");
            }
        }
        assert_eq!(FORMED.get() - begin, 100);
    }

    #[test]
    fn expired_tokens_do_not_accumulate_in_memory() {
        let mut known = Known::default();
        let token = |number: u64| format!("tk{number:06}");
        known.add("environment variable \"KEY\"", "configured-canary");
        known.add("the log-in of another", "canary-of-another");
        let (mut entries_max, mut secrets_max) = (0, 0);
        for number in 0..20_000_u64 {
            known.add("the log-in of a user", &token(number));
            // As each trial does.
            known.add("environment variable \"KEY\"", "configured-canary");
            let place = &known.0["the log-in of a user"];
            let entries = |generation: &Generation| {
                generation.known.parts.len() + generation.known.words.len()
            };
            entries_max = entries_max.max(entries(&place.last) + entries(&place.before));
            secrets_max = secrets_max.max(place.last.secrets.len() + place.before.secrets.len());
            if number % 1000 == 999 {
                for old in [number, number - 1, number.saturating_sub(RENEWALS as u64 - 1)] {
                    assert_eq!(known.blot(&format!("<{}>", token(old))), "<***>", "{old}");
                }
                let blotted = known.blot("<configured-canary> and <canary-of-another>");
                assert_eq!(blotted, "<***> and <***>");
            }
        }
        assert_eq!((known.0.len(), secrets_max), (3, 2 * RENEWALS));
        let mut of_one = Secrets::default();
        of_one.add(&token(19_999));
        let of_one = of_one.parts.len() + of_one.words.len();
        assert!(entries_max <= 2 * RENEWALS * of_one, "{entries_max} of {of_one} for each");
        assert_eq!(known.blot(&token(10_000)), token(10_000));
    }

    #[test]
    fn of_very_long_tokens_only_the_last_ones_are_remembered() {
        let token = |number: u64| {
            let mut random = number;
            let mut digit = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b"0123456789abcdefghijklmnopqrstuv"[(random >> 59) as usize])
            };
            (0..60_000).map(|_| digit()).collect::<String>()
        };
        let mut of_one = Secrets::default();
        of_one.add(&token(0));
        let mut known = Known::default();
        let mut parts_max = 0;
        for number in 0..8 {
            known.add("the log-in of a user", &token(number));
            let place = &known.0["the log-in of a user"];
            parts_max =
                parts_max.max(place.last.known.parts.len() + place.before.known.parts.len());
            for old in [number, number.saturating_sub(1)] {
                assert_eq!(known.blot(&token(old)), HIDDEN, "{old} of {number}");
            }
        }
        assert!(parts_max <= PARTS_MAX + 2 * of_one.parts.len(), "{parts_max}");
        assert_eq!(known.blot(&token(0)).len(), 60_000);
    }

    #[test]
    fn a_short_secret_is_blotted_as_a_whole_and_a_very_short_one_is_not() {
        assert_eq!(blot("user u, key aB3$, kept", ["aB3$"]), "user u, key ***, kept");
        assert_eq!(blot("the cat sat", ["cat"]), "the cat sat");
        assert_eq!(blot("nothing is known", []), "nothing is known");
    }

    #[test]
    fn terminal_controls_are_replaced_and_line_breaks_kept() {
        let raw = "a\x1b[31mb\x07\r\nc\rd\u{9b}e\u{202e}f\tg";
        assert_eq!(plain(raw), "a\u{fffd}[31mb\u{fffd}\nc\u{fffd}d\u{fffd}e\u{fffd}f\tg");
        assert_eq!(foreign_line("one\r\nerror: two\tx"), "one error: two x");
    }

    #[test]
    fn a_long_text_of_a_target_is_cut() {
        let long = format!("list: {}", "t".repeat(8_000_000));
        assert!(foreign_text(&long).len() < 2100);
        assert!(foreign_text(&long).starts_with("list: t"));
    }

    #[test]
    fn cutting_early_gives_the_same_text_as_blotting_everything() {
        let secret = "canary-8d1f0b6ac3e94d72";
        let (stretch, word) = (secret.repeat(1000), "kept ü ");
        for lead in (2 * TOLD_CHARACTERS - 40)..(2 * TOLD_CHARACTERS + 4) {
            for text in [
                format!("{}{secret}{}", "l".repeat(lead), word.repeat(10)),
                format!("{}{stretch}{}", "l".repeat(lead % 1900), word.repeat(900)),
                format!("{}{secret}", "l".repeat(lead - 2 * PART_BYTES)),
            ] {
                let whole = cut(&plain(&blot(&text, [secret])), TOLD_CHARACTERS).into_owned();
                assert_eq!(blotted_and_cut(&text, |part| blot(part, [secret])), whole);
            }
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("üüüü", 2), "üü …");
        assert_eq!(cut("üü", 2), "üü");
    }
}
