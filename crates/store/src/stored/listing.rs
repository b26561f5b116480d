//! A page of a sorted map of names: prefix, delimiter, marker, limit.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Parameters of a listing; empty strings mean absent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: &'a str,
    /// Names up to this one are omitted.
    pub(crate) after: &'a str,
    pub(crate) limit: usize,
}

/// A line of a listing.
#[derive(Debug, PartialEq)]
pub(crate) enum Entry<T> {
    Key(Box<str>, T),
    /// All names with this prefix, which ends in the delimiter.
    Prefix(Box<str>),
}

impl<T> Entry<T> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Entry::Key(name, _) | Entry::Prefix(name) => name,
        }
    }
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<Entry<T>>,
    /// Whether more entries follow.
    pub(crate) is_truncated: bool,
}

/// Lists `map` according to `query`; values that `keep` rejects are omitted.
pub(crate) fn list<V, T>(
    map: &BTreeMap<Box<str>, V>,
    query: Query<'_>,
    keep: impl Fn(&V) -> Option<T>,
) -> Page<T> {
    let mut page = Page { entries: Vec::new(), is_truncated: false };
    let upper = successor(query.prefix).map_or(Bound::Unbounded, Bound::Excluded);
    let mut lower = match !query.after.is_empty() && query.after >= query.prefix {
        true => Bound::Excluded(query.after.to_owned()),
        false => Bound::Included(query.prefix.to_owned()),
    };
    'seek: while query.limit > 0 && can_hold(&lower, &upper) {
        let range =
            map.range::<str, _>((lower.as_ref().map(|s| &**s), upper.as_ref().map(|s| &**s)));
        for (name, value) in range {
            let Some(shown) = keep(value) else { continue };
            let group = group_of(name, query);
            // The marker of a page may be the group that ended the previous page.
            let is_through = group == Some(query.after);
            if page.entries.len() == query.limit && !is_through {
                page.is_truncated = true;
                return page;
            }
            let Some(group) = group else {
                page.entries.push(Entry::Key(name.clone(), shown));
                continue;
            };
            if !is_through {
                page.entries.push(Entry::Prefix(group.into()));
            }
            // Skip the group, however many names it contains.
            match successor(group) {
                Some(next) => lower = Bound::Included(next),
                None => break 'seek,
            }
            continue 'seek;
        }
        break;
    }
    page
}

/// Returns the smallest string above all strings with this prefix, if there is one.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            char::MAX => continue,
            '\u{d7ff}' => '\u{e000}',
            _ => char::from_u32(last as u32 + 1)?,
        };
        text.push(next);
        return Some(text);
    }
    None
}

fn group_of<'k>(name: &'k str, query: Query<'_>) -> Option<&'k str> {
    if query.delimiter.is_empty() {
        return None;
    }
    let end = name[query.prefix.len()..].find(query.delimiter)?;
    Some(&name[..query.prefix.len() + end + query.delimiter.len()])
}

/// Returns whether the range can contain anything; otherwise `BTreeMap::range` panics.
fn can_hold(lower: &Bound<String>, upper: &Bound<String>) -> bool {
    match (lower, upper) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)) => low < high,
        _ => true,
    }
}

/// Returns whether XML cannot represent a character, or a reader would get another one.
pub(crate) fn is_lost(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// Returns whether XML can represent a text so that a reader gets it unchanged.
pub(crate) fn is_xml(text: &str) -> bool {
    !text.contains(is_lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: Query<'_>) -> (Vec<String>, bool) {
        let keys = ["a", "b/", "b/1", "b/2", "c", "d/x/1", "d/x/2", "d/y", "é", "\u{10ffff}z"];
        let map = keys.iter().map(|key| (Box::from(*key), *key != "c")).collect();
        let page = list(&map, query, |is_kept: &bool| is_kept.then_some(()));
        (page.entries.iter().map(|e| e.name().to_owned()).collect(), page.is_truncated)
    }

    fn all<'a>() -> Query<'a> {
        Query { limit: 100, ..Query::default() }
    }

    #[test]
    fn names_are_in_order_without_rejected_ones() {
        let (listed, truncated) = names(all());
        let expected = ["a", "b/", "b/1", "b/2", "d/x/1", "d/x/2", "d/y", "é", "\u{10ffff}z"];
        assert_eq!(listed, expected);
        assert!(!truncated);
    }

    #[test]
    fn a_delimiter_folds_names_into_groups_on_every_level() {
        assert_eq!(
            names(Query { delimiter: "/", ..all() }).0,
            ["a", "b/", "d/", "é", "\u{10ffff}z"]
        );
        assert_eq!(names(Query { delimiter: "/", prefix: "d/", ..all() }).0, ["d/x/", "d/y"]);
    }

    #[test]
    fn pages_of_any_size_join_to_the_whole_listing() {
        for delimiter in ["", "/"] {
            let whole = names(Query { delimiter, ..all() }).0;
            for limit in 1..5 {
                let (mut joined, mut after) = (Vec::new(), String::new());
                loop {
                    let query = Query { delimiter, limit, after: &after, ..all() };
                    let (page, truncated) = names(query);
                    joined.extend(page);
                    after = joined.last().unwrap().clone();
                    if !truncated {
                        break;
                    }
                }
                assert_eq!(joined, whole, "limit {limit} {delimiter:?}");
            }
        }
    }

    #[test]
    fn markers_outside_the_prefix_are_harmless() {
        assert_eq!(names(Query { prefix: "b/", after: "a", ..all() }).0, ["b/", "b/1", "b/2"]);
        assert!(names(Query { prefix: "b/", after: "c", ..all() }).0.is_empty());
        assert_eq!(names(Query { prefix: "\u{10ffff}", ..all() }).0, ["\u{10ffff}z"]);
        assert_eq!(names(Query { limit: 0, ..all() }), (Vec::new(), false));
    }
}
