//! Reads the text of the files `~/.aws/credentials` and `~/.aws/config`.

use crate::sigv4::Credentials;

/// What the files say about one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The keys, when both are there.
    pub credentials: Option<Credentials>,
    /// The region.
    pub region: Option<String>,
    /// The endpoint that stands for every service.
    pub endpoint_url: Option<String>,
}

/// Reads a profile out of the texts of both files; None when neither knows it.
///
/// What stands in the credentials file goes before the config file, where a profile other than
/// `default` has the title `[profile NAME]`.
pub fn parse_profile(credentials: &str, config: &str, name: &str) -> Option<Profile> {
    let mut is_known = false;
    let mut keys: [Option<&str>; 5] = [None; 5];
    let config_title = format!("profile {name}");
    for (text, is_config) in [(credentials, false), (config, true)] {
        let is_wanted = |title: &str| {
            title == name && (!is_config || name == "default") || is_config && title == config_title
        };
        for (title, setting) in settings(text) {
            if !is_wanted(&title) {
                continue;
            }
            is_known = true;
            let Some((key, value)) = setting else { continue };
            let names = [
                "aws_access_key_id",
                "aws_secret_access_key",
                "aws_session_token",
                "region",
                "endpoint_url",
            ];
            if let Some(position) = names.iter().position(|name| key.eq_ignore_ascii_case(name)) {
                keys[position].get_or_insert(value);
            }
        }
    }
    let [access_key, secret_key, session_token, region, endpoint_url] =
        keys.map(|value| value.map(str::to_owned));
    let credentials = match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => {
            Some(Credentials { access_key, secret_key, session_token })
        }
        _ => None,
    };
    is_known.then_some(Profile { credentials, region, endpoint_url })
}

/// Goes through an INI text: every title, and every setting under its title.
fn settings(text: &str) -> impl Iterator<Item = (String, Option<(&str, &str)>)> {
    let mut title = String::new();
    text.lines().filter_map(move |line| {
        // An indented line belongs to a nested section, which says nothing about keys.
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return None;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let inside = rest.split(']').next().unwrap_or_default();
            title = inside.split_whitespace().collect::<Vec<_>>().join(" ");
            return Some((title.clone(), None));
        }
        if is_nested {
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((title.clone(), Some((key.trim(), without_comment(value)))))
    })
}

/// Drops a comment, which only counts as one behind a blank: keys may hold `#` and `;`.
fn without_comment(value: &str) -> &str {
    let end = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    value[..end.unwrap_or(value.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
# a comment
[default]
aws_access_key_id = AK#1
aws_secret_access_key=sec/ret+==   ; of the default

[lab]
AWS_ACCESS_KEY_ID = LAB
aws_secret_access_key = labsecret
aws_session_token = token==
[half]
aws_access_key_id = HALF
";
    const CONFIG: &str = "\
[default]
region = eu-west-1
s3 =
    region = nested
[profile lab]
region = lab-1
endpoint_url = http://localhost:9000
aws_access_key_id = SHADOWED
[half]
region = not-a-profile-of-the-config-file
[ profile   other ]
region = other-1
";

    #[test]
    fn the_default_profile_takes_its_keys_and_its_region_from_both_files() {
        let profile = parse_profile(CREDENTIALS, CONFIG, "default").unwrap();
        let credentials = profile.credentials.unwrap();
        assert_eq!(credentials.access_key, "AK#1");
        assert_eq!(credentials.secret_key, "sec/ret+==");
        assert_eq!(credentials.session_token, None);
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
    }

    #[test]
    fn a_named_profile_is_titled_so_in_the_config_file() {
        let profile = parse_profile(CREDENTIALS, CONFIG, "lab").unwrap();
        let credentials = profile.credentials.unwrap();
        assert_eq!(credentials.access_key, "LAB", "the credentials file goes first");
        assert_eq!(credentials.session_token.as_deref(), Some("token=="));
        assert_eq!(profile.endpoint_url.as_deref(), Some("http://localhost:9000"));
    }

    #[test]
    fn half_a_pair_of_keys_is_none_and_an_unknown_profile_is_unknown() {
        let half = parse_profile(CREDENTIALS, CONFIG, "half").unwrap();
        assert_eq!((half.credentials, half.region), (None, None));
        let other = parse_profile(CREDENTIALS, CONFIG, "other").unwrap();
        assert_eq!(other.region.as_deref(), Some("other-1"));
        assert_eq!(parse_profile(CREDENTIALS, CONFIG, "nobody"), None);
        assert_eq!(parse_profile("", "", "default"), None);
    }
}
