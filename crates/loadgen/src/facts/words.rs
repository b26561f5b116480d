//! The word that names a target on the command line, such as `rados:POOL` or a URL.

/// The form of such a word. If several forms match, the first one in this list wins.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// The driver's name, with or without a colon; the environment gives the other settings, if
    /// any.
    Name,
    /// The driver's name, a plus sign, and an `http` or `https` URL for this setting.
    NamedUrl(&'static str),
    /// The driver's name, a colon, and a text for this setting.
    Named(&'static str),
    /// A path, for this setting.
    Path(&'static str),
    /// A URL that the function recognises as this driver's, for this setting.
    KnownUrl(&'static str, fn(&str) -> bool),
    /// Any other URL, for this setting.
    AnyUrl(&'static str),
}

/// A parsed word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The driver.
    pub driver: &'static str,
    /// The setting that the word fills, and its value.
    pub setting: Option<(&'static str, String)>,
}

impl Form {
    /// Returns the position in the list, for precedence.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Name => 0,
            Self::NamedUrl(_) => 1,
            Self::Named(_) => 2,
            Self::Path(_) => 3,
            Self::KnownUrl(..) => 4,
            Self::AnyUrl(_) => 5,
        }
    }

    /// Parses a word, if it has this form.
    pub(crate) fn read(self, driver: &'static str, text: &str) -> Option<Word> {
        let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
        let is_path = |text: &str| ["/", "./", "../"].iter().any(|start| text.starts_with(start));
        let behind = |mark: char| text.strip_prefix(driver)?.strip_prefix(mark);
        let setting = match self {
            Self::Name => {
                let is_name = text == driver || behind(':') == Some("");
                return is_name.then_some(Word { driver, setting: None });
            }
            Self::NamedUrl(setting) => (setting, behind('+').filter(|url| is_url(url))?),
            Self::Named(setting) => (setting, behind(':').filter(|rest| !rest.is_empty())?),
            Self::Path(setting) => (setting, Some(text).filter(|text| is_path(text))?),
            Self::KnownUrl(setting, is_known) => {
                (setting, Some(text).filter(|text| is_url(text) && is_known(text))?)
            }
            Self::AnyUrl(setting) => (setting, Some(text).filter(|text| is_url(text))?),
        };
        Some(Word { driver, setting: Some((setting.0, setting.1.to_owned())) })
    }
}
