//! The versions of a bucket's objects in the order of their keys, with counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::stored::listing::{self, Page, Query};
use crate::stored::object::Object;

/// Whether a bucket keeps older versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Versioning {
    #[default]
    Off,
    Enabled,
    Suspended,
}

/// Condition on the current version for a write to be executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Precondition {
    pub(crate) if_match: Option<EtagRule>,
    pub(crate) if_none_match: Option<EtagRule>,
}

/// An entity tag in a condition.
#[derive(Clone, Debug)]
pub(crate) enum EtagRule {
    Any,
    /// Without quotes.
    OneOf(Vec<String>),
}

impl EtagRule {
    /// Returns whether an object with this entity tag matches.
    pub(crate) fn matches(&self, etag: &str) -> bool {
        match self {
            EtagRule::Any => true,
            EtagRule::OneOf(etags) => etags.iter().any(|wanted| wanted == etag),
        }
    }

    /// Parses `*` or a list of entity tags, with or without quotes.
    pub(crate) fn parse(text: &str) -> EtagRule {
        if text.trim() == "*" {
            return EtagRule::Any;
        }
        let etags = text
            .split(',')
            .map(|part| part.trim().trim_start_matches("W/").trim_matches('"').to_owned());
        EtagRule::OneOf(etags.collect())
    }
}

impl Precondition {
    /// Refuses if the current version does not satisfy the condition.
    pub(crate) fn check(&self, current: Option<&Object>) -> Result<(), Refusal> {
        let current = current.filter(|object| !object.is_delete_marker());
        if self.if_match.is_some() && current.is_none() {
            return Err(Refusal::NothingToMatch);
        }
        let unmatched = self
            .if_match
            .as_ref()
            .is_some_and(|rule| !current.is_some_and(|object| rule.matches(&object.etag)));
        let forbidden = self
            .if_none_match
            .as_ref()
            .is_some_and(|rule| current.is_some_and(|object| rule.matches(&object.etag)));
        if unmatched || forbidden { Err(Refusal::PreconditionFailed) } else { Ok(()) }
    }
}

/// All versions of one key, oldest first; almost always one.
#[derive(Debug)]
enum Slot {
    One(Arc<Object>),
    Many(Vec<Arc<Object>>),
}

impl Slot {
    fn versions(&self) -> &[Arc<Object>] {
        match self {
            Slot::One(object) => std::slice::from_ref(object),
            Slot::Many(objects) => objects,
        }
    }

    fn current(&self) -> &Arc<Object> {
        self.versions().last().expect("a slot holds at least one version")
    }
}

/// The objects of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: BTreeMap<Box<str>, Slot>,
    /// Number of objects visible to a reader.
    pub(crate) objects: u64,
    /// Total size of those objects.
    pub(crate) bytes: u64,
    /// Whether the bucket was deleted; later requests for it are refused.
    pub(crate) is_closed: bool,
}

impl Index {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the current version, which may be a delete marker.
    pub(crate) fn current(&self, key: &str) -> Option<&Arc<Object>> {
        self.slots.get(key).map(Slot::current)
    }

    pub(crate) fn version(&self, key: &str, version_id: &str) -> Option<&Arc<Object>> {
        let versions = self.slots.get(key)?.versions();
        versions.iter().find(|object| object.version_id() == version_id)
    }

    /// Returns the version with this number.
    pub(crate) fn exactly(&self, key: &str, id: u64) -> Option<&Arc<Object>> {
        self.slots.get(key)?.versions().iter().find(|object| object.id == id)
    }

    /// Adds a version; returns the versions that it replaces, including itself if a later one
    /// exists.
    pub(crate) fn insert(&mut self, key: &str, object: Arc<Object>) -> Vec<Arc<Object>> {
        if !self.slots.contains_key(key) {
            self.count(None, Some(&object));
            self.slots.insert(key.into(), Slot::One(object));
            return Vec::new();
        }
        let mut versions = self.take(key);
        let before = versions.last().cloned();
        let mut replaced = Vec::new();
        if object.is_null_version {
            let twin = versions.iter().position(|version| version.is_null_version);
            match twin {
                Some(twin) if versions[twin].id > object.id => replaced.push(object),
                Some(twin) => {
                    replaced.push(versions.remove(twin));
                    versions.push(object);
                }
                None => versions.push(object),
            }
        } else {
            versions.push(object);
        }
        versions.sort_by_key(|version| version.id);
        self.put_back(key, before, versions);
        replaced
    }

    /// Removes a version, or the null version if `version_id` is `None`.
    pub(crate) fn remove(&mut self, key: &str, version_id: Option<&str>) -> Option<Arc<Object>> {
        let wanted = version_id.unwrap_or("null");
        let versions = self.slots.get(key)?.versions();
        let place = versions.iter().position(|object| object.version_id() == wanted)?;
        let mut versions = self.take(key);
        let before = versions.last().cloned();
        let removed = versions.remove(place);
        self.put_back(key, before, versions);
        Some(removed)
    }

    /// Removes exactly this version, if it still exists.
    pub(crate) fn remove_exactly(&mut self, key: &str, id: u64) -> Option<Arc<Object>> {
        let version_id = self.exactly(key, id)?.version_id();
        self.remove(key, Some(&version_id))
    }

    /// Replaces the version with the same number by `object`.
    pub(crate) fn replace(&mut self, key: &str, object: Arc<Object>) -> bool {
        let Some(slot) = self.slots.get_mut(key) else { return false };
        let versions = match slot {
            Slot::One(only) => std::slice::from_mut(only),
            Slot::Many(many) => many,
        };
        match versions.iter_mut().find(|version| version.id == object.id) {
            Some(place) => *place = object,
            None => return false,
        }
        true
    }

    /// Lists the current versions that are visible to a reader.
    pub(crate) fn list(&self, query: Query<'_>) -> Page<Arc<Object>> {
        listing::list(&self.slots, query, |slot| {
            let current = slot.current();
            (!current.is_delete_marker()).then(|| current.clone())
        })
    }

    /// Lists keys with all their versions, newest first.
    pub(crate) fn list_versions(&self, query: Query<'_>) -> Page<Vec<Arc<Object>>> {
        listing::list(&self.slots, query, |slot| {
            Some(slot.versions().iter().rev().cloned().collect())
        })
    }

    fn take(&mut self, key: &str) -> Vec<Arc<Object>> {
        match self.slots.remove(key) {
            None => Vec::new(),
            Some(Slot::One(object)) => vec![object],
            Some(Slot::Many(objects)) => objects,
        }
    }

    fn put_back(&mut self, key: &str, before: Option<Arc<Object>>, mut versions: Vec<Arc<Object>>) {
        self.count(before.as_deref(), versions.last().cloned().as_deref());
        match versions.len() {
            0 => {}
            1 => drop(self.slots.insert(key.into(), Slot::One(versions.remove(0)))),
            _ => drop(self.slots.insert(key.into(), Slot::Many(versions))),
        }
    }

    fn count(&mut self, before: Option<&Object>, after: Option<&Object>) {
        if let Some(object) = before.filter(|object| !object.is_delete_marker()) {
            self.objects -= 1;
            self.bytes -= object.length();
        }
        if let Some(object) = after.filter(|object| !object.is_delete_marker()) {
            self.objects += 1;
            self.bytes += object.length();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::stored::body::Body;
    use crate::stored::object::{About, Form};

    fn version(id: u64, is_null_version: bool, form: Form) -> Arc<Object> {
        Arc::new(Object {
            id,
            is_null_version,
            body: Body::empty(),
            etag: format!("e{id}").into(),
            modified_us: id,
            about: About { form, ..About::default() },
            _record: Budget::new(1).reserve(0).unwrap(),
        })
    }

    #[test]
    fn the_later_of_two_racing_writes_wins_in_any_order_of_arrival() {
        let mut index = Index::default();
        assert!(index.insert("k", version(2, true, Form::Plain)).is_empty());
        let replaced = index.insert("k", version(1, true, Form::Plain));
        assert_eq!(replaced[0].id, 1);
        assert_eq!(index.current("k").unwrap().id, 2);
        assert_eq!(index.objects, 1);
    }

    #[test]
    fn versions_are_kept_under_a_delete_marker_and_reappear_without_it() {
        let mut index = Index::default();
        index.insert("k", version(1, false, Form::Plain));
        index.insert("k", version(2, false, Form::Plain));
        let marker = version(3, false, Form::DeleteMarker);
        index.insert("k", marker.clone());
        assert_eq!(index.objects, 0);
        assert!(index.list(Query { limit: 9, ..Query::default() }).entries.is_empty());
        assert!(index.remove("k", Some(&marker.version_id())).is_some());
        assert_eq!(index.current("k").unwrap().id, 2);
        assert_eq!(index.objects, 1);
        assert!(index.remove("k", Some("missing")).is_none());
    }

    #[test]
    fn preconditions_apply_to_the_current_version_only() {
        let object = version(1, true, Form::Plain);
        let only_new =
            Precondition { if_none_match: Some(EtagRule::Any), ..Precondition::default() };
        assert!(only_new.check(None).is_ok());
        assert!(only_new.check(Some(&object)).is_err());
        assert!(only_new.check(Some(&version(2, true, Form::DeleteMarker))).is_ok());
        let only_same = Precondition {
            if_match: Some(EtagRule::parse("\"x\", W/\"e1\"")),
            ..Precondition::default()
        };
        assert!(only_same.check(Some(&object)).is_ok());
        assert!(only_same.check(None).is_err());
    }
}
