//! Parses the files `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;

/// The settings of one profile or section, by name in lower case.
pub type Section = BTreeMap<String, String>;

/// Reads a profile from the texts of both files; `None` if neither contains it.
///
/// The credentials file takes precedence over the config file, where a profile other than `default`
/// has the title `[profile NAME]`.
pub fn read_profile(credentials: &str, config: &str, name: &str) -> Option<Section> {
    let title = if name == "default" { name.to_owned() } else { format!("profile {name}") };
    let titled = read_section(config, &title);
    // The default profile may have either title.
    let other = (name == "default").then(|| read_section(config, "profile default")).flatten();
    let sections = [read_section(credentials, name), titled, other];
    let mut sections = sections.into_iter().flatten();
    let mut profile = sections.next()?;
    for later in sections {
        for (key, value) in later {
            profile.entry(key).or_insert(value);
        }
    }
    Some(profile)
}

/// Reads all settings under a title; `None` if there is no such title. The first occurrence of a
/// setting counts.
pub fn read_section(text: &str, wanted: &str) -> Option<Section> {
    let mut section = None;
    for (_, setting) in settings(text).filter(|(title, _)| title == wanted) {
        let section = section.get_or_insert_with(Section::new);
        if let Some((key, value)) = setting {
            section.entry(key.to_ascii_lowercase()).or_insert_with(|| value.to_owned());
        }
    }
    section
}

/// Iterates over an INI text: every title, and every setting under its title.
fn settings(text: &str) -> impl Iterator<Item = (String, Option<(&str, &str)>)> {
    let mut title = String::new();
    text.lines().filter_map(move |line| {
        // An indented line belongs to a nested section, which contains no keys.
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

/// Removes a comment, which must follow a blank, because keys may contain `#` and `;`.
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

    fn value<'a>(section: &'a Section, key: &str) -> Option<&'a str> {
        section.get(key).map(String::as_str)
    }

    #[test]
    fn the_default_profile_takes_its_keys_and_its_region_from_both_files() {
        let profile = read_profile(CREDENTIALS, CONFIG, "default").unwrap();
        assert_eq!(value(&profile, "aws_access_key_id"), Some("AK#1"));
        assert_eq!(value(&profile, "aws_secret_access_key"), Some("sec/ret+=="));
        assert_eq!(value(&profile, "aws_session_token"), None);
        assert_eq!(value(&profile, "region"), Some("eu-west-1"));
    }

    #[test]
    fn a_named_profile_has_its_title_in_the_config_file() {
        let profile = read_profile(CREDENTIALS, CONFIG, "lab").unwrap();
        let key = value(&profile, "aws_access_key_id");
        assert_eq!(key, Some("LAB"), "the credentials file goes first");
        assert_eq!(value(&profile, "aws_session_token"), Some("token=="));
        assert_eq!(value(&profile, "endpoint_url"), Some("http://localhost:9000"));
    }

    #[test]
    fn an_unknown_profile_is_unknown() {
        let half = read_profile(CREDENTIALS, CONFIG, "half").unwrap();
        assert_eq!(
            (value(&half, "aws_access_key_id"), value(&half, "region")),
            (Some("HALF"), None)
        );
        let other = read_profile(CREDENTIALS, CONFIG, "other").unwrap();
        assert_eq!(value(&other, "region"), Some("other-1"));
        assert_eq!(read_profile(CREDENTIALS, CONFIG, "nobody"), None);
        assert_eq!(read_profile("", "", "default"), None);
    }
}
