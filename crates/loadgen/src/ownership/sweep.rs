//! Clean-up: deletes what a run may have written in a place, and the place if nothing else is in
//! it. It ends against any target, and reports what it leaves and why.

use std::collections::HashSet;

use serde::Serialize;

use super::{Claim, Look, Mark, Page, Places, Removed, Scope, TRIES, Title, claim_in, hash, wait};
use crate::error::Error;
use crate::secrecy::foreign_text;
use crate::trial::Ownership;

/// Keys per delete request.
const KEYS_AT_ONCE: usize = 1000;
/// Maximum number of consecutive batches of which nothing could be deleted.
const FRUITLESS_MAX: u32 = 3;
/// Maximum number of consecutive pages without keys. Stores that skip deleted keys return some.
const EMPTY_PAGES_MAX: u32 = 64;
/// Maximum number of pages of others' keys to read, beyond those that the dataset fills.
const PAGES_MAX: u64 = if cfg!(test) { 20 } else { 1000 };
/// Maximum duration of pages of which nothing could be deleted, in timeouts.
const IDLE_TIMEOUTS: u64 = 10;

/// Why a place is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeftKind {
    /// It carries no mark, so loadstone did not create it.
    Foreign,
    /// It carries the mark of a run that the user did not name, or of another place.
    OtherRun,
    /// It contains objects that the run did not write.
    OtherObjects,
    /// Its listing does not end, or makes no progress.
    Listing,
    /// The store does not delete what it lists.
    Undeletable,
    /// The store locks its objects for some time.
    Locked,
    /// The store reports that it is not empty, and lists nothing: old versions, uploads.
    Hidden,
    /// It is absent, and so is the device or file system that it was on.
    NotThere,
    /// The target did not answer as expected.
    Error,
    /// The clean-up gave up before it reached this place.
    NotTried,
}

/// A place that a clean-up leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Left {
    /// Name of the place.
    pub place: String,
    /// Reason, for programs.
    pub kind: LeftKind,
    /// Reason, for people.
    pub reason: String,
    /// Number of objects that were listed in it; `None` if it was not listed.
    pub objects: Option<u64>,
    /// Whether there may be more objects.
    pub has_more: bool,
}

impl Left {
    pub(crate) fn new(place: &str, kind: LeftKind, reason: impl Into<String>) -> Self {
        // Keys, and the runs in marks, are text from the target.
        let (place, reason) = (place.to_owned(), foreign_text(&reason.into()).replace('\n', " "));
        Self { place, kind, reason, objects: None, has_more: false }
    }
}

/// Result of cleaning up one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Objects deleted.
    pub objects: u64,
    /// Deleted objects that were listed after all had been deleted once: a delayed listing shows
    /// objects that no longer exist.
    pub objects_again: u64,
    /// Set if something of the run may still be there, with the reason.
    pub left: Option<Left>,
    /// Whether the place belongs to another and therefore stays.
    pub is_foreign: bool,
    /// Whether the place did not exist.
    pub is_absent: bool,
}

impl Swept {
    /// Returns the result for a place that does not exist.
    pub(crate) fn absent() -> Self {
        Self { is_absent: true, ..Self::default() }
    }

    /// Reports a place in which nothing was found as left, if the run's places are on other volumes
    /// than this one.
    pub(crate) fn or_not_there(self, place: &str, volume: &str, ownership: &Ownership) -> Self {
        let is_nothing = self.objects == 0 && self.left.is_none();
        if !is_nothing || !(self.is_absent || self.is_foreign) || !ownership.is_elsewhere(volume) {
            return self;
        }
        let claimed = ownership.volumes.join(", or ");
        let reason = format!("not there to clean: it was on {claimed}; found was {volume}");
        Self::leaving(0, Some(Left::new(place, LeftKind::NotThere, reason)))
    }

    /// Returns the result for a place that may be left.
    pub(crate) fn leaving(objects: u64, left: Option<Left>) -> Self {
        Self { objects, left, ..Self::default() }
    }
}

/// Follows a listing, and detects that it makes no progress.
pub(super) struct Listing {
    token: Option<String>,
    known_pages: HashSet<u64>,
    empty: u32,
    pages: u64,
    pages_max: u64,
    idle_ns: u64,
    idle_ns_max: u64,
}

impl Listing {
    pub(super) fn new(title: &Title) -> Self {
        Self {
            token: None,
            known_pages: HashSet::new(),
            empty: 0,
            pages: 0,
            // Each object may have a copy and some parts; pages may be shorter than requested.
            pages_max: PAGES_MAX.saturating_add(title.objects_max() / 100),
            idle_ns: 0,
            idle_ns_max: title.timeout_ns.saturating_mul(IDLE_TIMEOUTS),
        }
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Records a page after `idle_ns` without deletions; returns whether to request another one, or
    /// the reason to give up.
    pub(super) fn turn(&mut self, page: &Page, idle_ns: u64) -> Result<bool, &'static str> {
        let Some(next) = page.next.clone() else { return Ok(false) };
        if !self.known_pages.insert(hash(&next)) {
            return Err("the listing comes back to a page that it has been at");
        }
        match &page.first {
            Some(first) if !self.known_pages.insert(hash(first) ^ 1) => {
                return Err("the listing has a page without new keys");
            }
            Some(_) => self.empty = 0,
            None => self.empty += 1,
        }
        if self.empty > EMPTY_PAGES_MAX {
            return Err("the listing has page after page without keys");
        }
        self.pages += 1;
        self.idle_ns = self.idle_ns.saturating_add(idle_ns);
        if self.pages > self.pages_max {
            return Err("the listing is longer than what the dataset can have put there");
        }
        if self.idle_ns > self.idle_ns_max {
            return Err("the listing takes longer than ten time-outs without a key of the dataset");
        }
        self.token = Some(next);
        Ok(true)
    }
}

/// Deletes the dataset's objects in a place of ours, then the place if nothing else is in it. In a
/// foreign place that our run has claimed, deletes only the objects and the claim.
///
/// # Errors
/// The target did not answer as expected.
pub(crate) async fn sweep<P: Places>(places: &mut P, place: &str) -> Result<Swept, Error> {
    let title = places.title();
    let text = match places.look(place).await? {
        Look::Absent => return Ok(Swept::absent()),
        Look::There(text) => text,
    };
    match text.as_deref().and_then(Mark::parse) {
        Some(mark) if title.takes(&mark, place) => {
            let mut swept = sweep_ours(places, place).await?;
            if let Some(left) = &mut swept.left
                && matches!(left.kind, LeftKind::Undeletable | LeftKind::Hidden)
                && let Some(reason) = places.why_kept(place).await
            {
                left.kind = LeftKind::Locked;
                left.reason = reason.to_owned();
            }
            Ok(swept)
        }
        Some(mark) => {
            let mut reason = title.whose(&mark, place);
            if !mark.is_copy_in(place) {
                reason.push_str("; that one's clean-up removes it");
            }
            let left = Left::new(place, LeftKind::OtherRun, reason);
            Ok(Swept { left: Some(left), ..Swept::default() })
        }
        None => sweep_unmarked(places, place, &title).await,
    }
}

async fn sweep_unmarked<P: Places>(
    places: &mut P,
    place: &str,
    title: &Title,
) -> Result<Swept, Error> {
    let mut is_in_doubt = false;
    if title.adopts(place) {
        let page = places.page(place, Scope::Everything, None).await?;
        // Only the end of the listing shows whether the place is empty, and so ours.
        is_in_doubt = page.next.is_some();
        // A kill between creation and mark left this place.
        if page.shows_empty() {
            let left = match places.remove(place).await? {
                Removed::Gone => None,
                Removed::NotEmpty => Some(hidden(place)),
            };
            return Ok(Swept { left, ..Swept::default() });
        }
    }
    let left = |kind, reason: String| {
        let left = Some(Left::new(place, kind, reason));
        Ok(Swept { left, is_foreign: true, ..Swept::default() })
    };
    if !title.allow_foreign {
        return left(LeftKind::Foreign, "loadstone did not make it".to_owned());
    }
    let mut swept = match claim_in(places, place, title).await? {
        Claim::Absent if is_in_doubt => {
            let reason =
                "the run was about to make it, and its listing does not show whether it did";
            return left(LeftKind::Listing, reason.to_owned());
        }
        // The claim is written before anything else and deleted last.
        Claim::Absent => return Ok(Swept { is_foreign: true, ..Swept::default() }),
        Claim::Ours(_) => sweep_objects(places, place, Others::MayHaveWritten).await?,
        Claim::Other(mark) => {
            let reason = format!("the dataset's keys are claimed: {}", title.whose(&mark, place));
            return left(LeftKind::OtherRun, reason);
        }
        Claim::Stranger => {
            let reason = format!("\"{}\" is there, and is no claim", title.claim_key());
            return left(LeftKind::Foreign, reason);
        }
    };
    // Objects of others under the dataset's keys stay, and are no reason to keep the claim.
    if swept.left.as_ref().is_none_or(|left| left.kind == LeftKind::OtherObjects) {
        places.sweep_hidden(place).await?;
        if places.keeps_versions(place).await {
            // The claim stays with the versions, so that a later clean-up recognises them.
            let reason = "it keeps versions: those of what the run wrote are left, with a delete \
                          marker each, and its claim; loadstone clean --versions removes them, and \
                          delete_versions: true of a target does from the start";
            swept.left = Some(Left::new(place, LeftKind::Hidden, reason));
        } else if places.delete(place, &[title.claim_key()]).await? == 0 {
            let reason = format!("the store does not delete \"{}\"", title.claim_key());
            swept.left = Some(Left::new(place, LeftKind::Undeletable, reason));
        }
    }
    swept.is_foreign = true;
    Ok(swept)
}

fn hidden(place: &str) -> Left {
    let reason = "the store says that it is not empty, and lists nothing in it: old versions, \
                  delete markers or uploads are left; loadstone clean --versions removes versions, the \
                  store's own tools the rest";
    Left::new(place, LeftKind::Hidden, reason)
}

async fn sweep_ours<P: Places>(places: &mut P, place: &str) -> Result<Swept, Error> {
    let mut swept = sweep_objects(places, place, Others::HaveNoPart).await?;
    if swept.left.is_some() {
        return Ok(swept);
    }
    places.sweep_hidden(place).await?;
    let (gone, mut still) = (swept.objects, Page::default());
    for _ in 0..TRIES {
        let page = places.page(place, Scope::Everything, None).await?;
        if page.others > 0 {
            swept.left = Some(strangers(place, &page));
            return Ok(swept);
        }
        if !page.owned.is_empty() {
            // A delayed listing may show objects that no longer exist, or show existing ones late.
            let more = sweep_objects(places, place, Others::HaveNoPart).await?;
            swept.objects += more.objects;
            swept.objects_again += more.objects;
            if more.left.is_some() {
                return Ok(Swept { left: more.left, ..swept });
            }
            still = page;
        } else if page.shows_empty() && remove(places, place).await? == Removed::Gone {
            return Ok(swept);
        }
        wait(places).await;
    }
    swept.left = Some(hidden(place));
    let objects = still.owned.len() as u64;
    if objects > 0 {
        let reason = "the store says that it deletes them, and goes on to list them";
        let left = Left::new(place, LeftKind::Undeletable, reason);
        swept.left = Some(Left { objects: Some(objects), has_more: still.next.is_some(), ..left });
        swept.objects = gone.saturating_sub(objects);
    }
    Ok(swept)
}

fn strangers(place: &str, page: &Page) -> Left {
    let name = page.stranger.as_deref().unwrap_or_default();
    let reason = format!("it holds objects that the run did not write, such as \"{name}\"");
    let left = Left::new(place, LeftKind::OtherObjects, reason);
    Left { objects: Some(page.others), has_more: page.next.is_some(), ..left }
}

/// Removes the mark and the place; a place that stays keeps its mark. A stop takes effect before or
/// after.
pub(crate) async fn remove<P: Places>(places: &mut P, place: &str) -> Result<Removed, Error> {
    let _pair = places.reactor().begin_pair().await;
    let mark = match places.look(place).await? {
        Look::There(Some(text)) => text,
        Look::There(None) => places.title().mark(place),
        Look::Absent => return Ok(Removed::Gone),
    };
    let removed = match places.delete_mark(place).await {
        Ok(()) => places.remove(place).await,
        Err(error) => Err(error),
    };
    match removed {
        Ok(Removed::Gone) => {}
        // The place stays, or may stay: then it must remain known as ours.
        _ => match places.write_mark(place, &mark).await {
            Ok(true) => {}
            Ok(false) => return Ok(Removed::Gone),
            Err(error) => {
                let action = format!("mark {} \"{place}\" again, which stays", P::PLACE);
                return Err(Error::target(action, error.to_string())
                    .of(error.kind())
                    .with_hint("clean up again: an empty one is known from the run's journal"));
            }
        },
    }
    removed
}

/// Whether others may write in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    HaveNoPart,
    /// Objects with the dataset's keys are ours only if they name the run.
    MayHaveWritten,
}

/// Deletes the dataset's objects that a place lists.
async fn sweep_objects<P: Places>(
    places: &mut P,
    place: &str,
    others: Others,
) -> Result<Swept, Error> {
    let title = places.title();
    let mut listing = Listing::new(&title);
    let (mut swept, mut fruitless) = (0, 0);
    let mut theirs = Page::default();
    loop {
        let begun_ns = places.reactor().now_ns();
        let page = places.page(place, Scope::Dataset, listing.token()).await?;
        let mut gone = 0;
        let owned = match others {
            Others::HaveNoPart => page.owned.clone(),
            Others::MayHaveWritten => places.ours_of(place, &page.owned).await?,
        };
        theirs.others += (page.owned.len() - owned.len()) as u64;
        if theirs.stranger.is_none() {
            theirs.stranger = page.owned.iter().find(|key| !owned.contains(key)).cloned();
        }
        for batch in owned.chunks(KEYS_AT_ONCE) {
            let deleted = places.delete(place, batch).await?;
            fruitless = if deleted == 0 { fruitless + 1 } else { 0 };
            gone += deleted;
            if fruitless >= FRUITLESS_MAX {
                break;
            }
        }
        swept += gone;
        let left = |kind, reason: &str| {
            let objects = (!owned.is_empty()).then_some(owned.len() as u64 - gone);
            let left = Left::new(place, kind, reason);
            Some(Left { objects: objects.filter(|count| *count > 0), has_more: true, ..left })
        };
        if fruitless >= FRUITLESS_MAX {
            let left = left(LeftKind::Undeletable, "the store deletes nothing of what it lists");
            return Ok(Swept::leaving(swept, left));
        }
        let spent_ns = places.reactor().now_ns() - begun_ns;
        match listing.turn(&page, if gone == 0 { spent_ns } else { 0 }) {
            Ok(true) => {}
            Ok(false) => {
                let left = (theirs.others > 0).then(|| strangers(place, &theirs));
                return Ok(Swept::leaving(swept, left));
            }
            Err(reason) => {
                let left = left(LeftKind::Listing, reason);
                return Ok(Swept::leaving(swept, left));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrecy::remember;

    #[test]
    fn the_reason_for_a_left_place_is_one_short_line_without_secrets() {
        // The target chooses the names of objects.
        remember("a test", "canary-3f0b9c1d7e");
        let name = format!("canary-3f0b9c1d7e\n\x1b[2J{}", "k".repeat(1 << 20));
        let left = Left::new("place", LeftKind::OtherObjects, format!("it holds \"{name}\""));
        assert!(!left.reason.contains("canary"), "{}", left.reason);
        assert!(!left.reason.contains(['\n', '\x1b']) && left.reason.len() < 2100);
    }
}
