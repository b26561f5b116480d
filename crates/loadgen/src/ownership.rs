//! Ownership of places: creates and marks places, refuses those of others, and sweeps exactly what
//! this run may have written. The logic is written once, over the primitives of each driver.
//!
//! A *place* is a bucket, a container, a namespace. A place that loadstone creates carries a *mark*
//! that names the run. In a foreign place, a *claim*, which is a mark beside the dataset's keys,
//! names the run that writes there. A place gets a claim only after a listing has shown that no key
//! of the dataset is in use.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::digest::sha256;
use loadstone_wire::encode::hex_of_sha256;
use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::error::{Error, Kind};
use crate::reactor::{Pair, Reactor};
use crate::trial::{Ownership, Trial};

pub(crate) mod beside;
mod sweep;

#[cfg(test)]
mod simulation;

pub use sweep::{Left, LeftKind};
pub(crate) use sweep::{Swept, sweep};

/// Version of the mark format.
const FORMAT: u32 = 1;
/// A new place may take a moment to become visible to all servers of a store, and to other hosts.
const TRIES: u32 = 10;
const TRY_AGAIN_NS: u64 = 300_000_000;
/// Number of digits of a digest in a mark.
const DIGITS: usize = 16;
/// Key of the claim, after the prefix of the dataset's keys.
const CLAIM: &str = ".loadstone-claim";

/// State of a bucket after it was prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketState {
    /// It did not exist; we created and marked it.
    Created,
    /// It existed and carries our mark.
    Ours,
    /// It existed without our mark, and the campaign allows that.
    Foreign,
}

/// The text that names the owner of a place: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    loadstone: u32,
    pub(crate) run: String,
    /// Digest of the name of the run's target, because two targets may lead to one store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Digest of the name of the marked place, so that a copy of the mark is invalid in another
    /// place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl Mark {
    /// Parses a mark; `None` if the text is not a mark, or has an unknown version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mark: Self = serde_json::from_str(text.trim()).ok()?;
        (mark.loadstone == FORMAT).then_some(mark)
    }

    /// Returns the mark of a place of a run's target.
    pub(crate) fn of(run: &str, target: &str, place: &str) -> String {
        let (target, place) = (Some(digest(target)), Some(digest(place)));
        let mark = Self { loadstone: FORMAT, run: run.to_owned(), target, place };
        serde_json::to_string(&mark).expect("a number and texts")
    }

    /// Returns whether a target with this name may have written it; older marks contain no target.
    pub(crate) fn fits(&self, target: &str) -> bool {
        self.target.as_ref().is_none_or(|target_digest| *target_digest == digest(target))
    }

    /// Returns whether it was written for another place; older marks contain no place.
    pub(crate) fn is_copy_in(&self, place: &str) -> bool {
        self.place.as_ref().is_some_and(|place_digest| *place_digest != digest(place))
    }
}

/// Returns the digest of a name for a mark, which must be short: a header of Swift holds at most
/// 256 bytes.
fn digest(name: &str) -> String {
    String::from_utf8_lossy(&hex_of_sha256(&sha256(name.as_bytes()))[..DIGITS]).into_owned()
}

/// The places and objects that a trial may treat as its own.
#[derive(Debug)]
pub(crate) struct Title {
    pub(crate) run: String,
    /// Name of the target.
    target: String,
    ownership: Ownership,
    pub(crate) allow_foreign: bool,
    dataset: Dataset,
    /// Returns the key of the object from which a key is derived: that of a copy or a part.
    plain: fn(&str) -> &str,
    pub(crate) timeout_ns: u64,
}

impl Title {
    pub(crate) fn of(trial: &Trial, plain: fn(&str) -> &str) -> Self {
        Self {
            run: trial.run.clone(),
            target: trial.target.name.clone(),
            ownership: trial.ownership.clone(),
            allow_foreign: trial.allow_foreign,
            dataset: Dataset::new(trial),
            plain,
            timeout_ns: trial.timeout_ns,
        }
    }

    /// Returns whether a run is this one, or one that the user has named.
    pub(crate) fn is_ours(&self, run: &str) -> bool {
        run == self.run || self.ownership.runs.iter().any(|named| named == run)
    }

    /// Returns whether a place with this mark belongs to this run on this target, or to a named
    /// run.
    pub(crate) fn takes(&self, mark: &Mark, place: &str) -> bool {
        self.is_ours(&mark.run)
            && !mark.is_copy_in(place)
            && (mark.run != self.run || mark.fits(&self.target))
    }

    /// Returns the mark of a place that this run creates on this target.
    pub(crate) fn mark(&self, place: &str) -> String {
        Mark::of(&self.run, &self.target, place)
    }

    /// Describes the owner of a mark that is not ours.
    fn whose(&self, mark: &Mark, place: &str) -> String {
        if mark.is_copy_in(place) {
            "its mark is a copy of another place's".to_owned()
        } else if mark.run == self.run {
            "another target of this run made it: both lead to the same store".to_owned()
        } else {
            format!("run {} made it", mark.run)
        }
    }

    /// Returns whether the run's journal contains a place, so that an unmarked one is the result of
    /// a kill.
    fn adopts(&self, place: &str) -> bool {
        self.ownership.adopt.iter().any(|name| name == place)
    }

    /// Returns whether the dataset puts this key in this place: an object, or a copy or a part of
    /// one, with a number of the dataset or one that its mixes may have put.
    pub(crate) fn owns(&self, place: &str, key: &str) -> bool {
        self.dataset.holds(place, (self.plain)(key), &self.ownership.written)
    }

    /// Returns whether a key has the form of the dataset's keys, with any number.
    pub(crate) fn is_alike(&self, key: &str) -> bool {
        self.dataset.index_of((self.plain)(key)).is_some()
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.dataset.spec().object_prefix
    }

    pub(crate) fn claim_key(&self) -> String {
        format!("{}{CLAIM}", self.prefix())
    }

    /// Returns an upper bound for the number of objects in one place.
    fn objects_max(&self) -> u64 {
        let spec = self.dataset.spec();
        let beyond = self.ownership.written.iter().map(|(first, end)| end - first);
        let all = beyond.fold(spec.objects, u64::saturating_add);
        all.div_ceil(spec.buckets).saturating_add(1)
    }

    /// Sorts a page's keys into ours and others.
    pub(crate) fn sort(
        &self,
        place: &str,
        keys: Vec<String>,
        is_mark: impl Fn(&str) -> bool,
        next: Option<String>,
    ) -> Page {
        let first = keys.first().cloned();
        let mut page = Page { first, next, ..Page::default() };
        for key in keys {
            self.sort_key(place, key, &is_mark, &mut page);
        }
        page
    }

    /// Adds a key to a page, as ours or as another's.
    pub(crate) fn sort_key(
        &self,
        place: &str,
        key: String,
        is_mark: impl Fn(&str) -> bool,
        page: &mut Page,
    ) {
        if page.alike.is_none() && self.is_alike(&key) {
            page.alike = Some(key.clone());
        }
        if self.owns(place, &key) {
            page.owned.push(key);
        } else if !is_mark(&key) {
            page.others += 1;
            page.stranger.get_or_insert(key);
        }
    }
}

/// State of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Absent,
    /// It exists; the text is that of the mark, if there is one.
    There(Option<String>),
}

/// Result of creating a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// It exists now; some stores also answer this if it existed before.
    New,
    /// It existed already.
    Exists,
}

/// Result of removing a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    Gone,
    NotEmpty,
}

impl Removed {
    /// Interprets the answer of an HTTP store; `None` if the place was not removed and the answer
    /// does not say why.
    pub(crate) fn of(status: u16, is_ok: bool) -> Option<Self> {
        match status {
            404 => Some(Self::Gone),
            409 => Some(Self::NotEmpty),
            _ => is_ok.then_some(Self::Gone),
        }
    }
}

/// Returns whether an HTTP store refused to create a place, so that none was created.
pub(crate) fn says_no(status: u16) -> bool {
    (400..500).contains(&status) && status != 408
}

/// Keys to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Keys with the dataset's prefix.
    Dataset,
    /// All keys.
    Everything,
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) owned: Vec<String>,
    /// Number of keys that are neither ours nor the mark.
    pub(crate) others: u64,
    /// An example of those keys.
    pub(crate) stranger: Option<String>,
    /// A key with the form of the dataset's keys and any number: a mix may put it later.
    pub(crate) alike: Option<String>,
    /// First key, which distinguishes this page from others.
    pub(crate) first: Option<String>,
    /// Token of the next page, if there is one.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Returns whether a first page shows that a place is empty; a page that is followed by another
    /// does not.
    pub(crate) fn shows_empty(&self) -> bool {
        self.owned.is_empty() && self.others == 0 && self.next.is_none()
    }
}

/// The primitives of each driver for places. They make no decisions: `ownership` calls them in an
/// order that leaves others' data alone, and relies on the guarantees stated here.
/// `drivers/toy_http.rs` implements them over HTTP, `drivers/toy.rs` in memory.
///
/// Every primitive returns an error if the target did not answer or refused. Nothing counts as
/// absent because it could not be inspected.
pub(crate) trait Places {
    /// The word for a place in messages: bucket, container, namespace.
    const PLACE: &'static str;
    /// Returns what the trial may treat as its own.
    fn title(&self) -> Arc<Title>;
    /// Returns the reactor of the client's thread: pauses use it, and it delays a stop during a
    /// pair of steps.
    fn reactor(&self) -> Rc<Reactor>;
    /// Returns whether a place exists, and the text of its mark. Changes nothing.
    async fn look(&mut self, place: &str) -> Result<Look, Error>;
    /// Creates a place without a mark. Returns `Made::Exists` if somebody else created it, and
    /// `Made::New` also if that is unknown, as after a retry: the caller lists a new place before
    /// it marks it.
    async fn create(&mut self, place: &str) -> Result<Made, Error>;
    /// Writes the mark; returns `false` if the store does not see the place yet. An existing mark
    /// is kept, if the store has conditional writes.
    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error>;
    /// Deletes the mark and nothing else. Does nothing if the mark is deleted with its place.
    async fn delete_mark(&mut self, place: &str) -> Result<(), Error>;
    /// Removes an empty place. **It never deletes the content of a place**: somebody may have put
    /// an object there after the last listing, so the store must refuse to remove a place that is
    /// not empty, in one step, as `DeleteBucket` and `rmdir` do; the result is then
    /// `Removed::NotEmpty`. If a store would delete the content with the place, its driver must not
    /// send the request: it leaves the place and returns `NotEmpty`.
    async fn remove(&mut self, place: &str) -> Result<Removed, Error>;
    /// Lists one page of a place from `token` on, with its keys sorted into ours and others' by
    /// [`Title::sort`]; returns an empty page if the place does not exist.
    async fn page(&mut self, place: &str, scope: Scope, token: Option<&str>)
    -> Result<Page, Error>;
    /// Deletes these keys and no others; returns how many of them no longer exist. Keys that did
    /// not exist count.
    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error>;
    /// Reads a small object, if it exists: a claim or a mark.
    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error>;
    /// Writes a small object: a claim. An existing object is kept, if the store has conditional
    /// writes; the caller reads the object back to learn whose it is.
    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error>;
    /// Announces that the trial writes in a foreign place, where its claim has this key and text.
    /// What it writes there must be distinguishable from what others write.
    async fn write_beside(&mut self, _place: &str, _key: &str, _text: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Returns those of `keys` in a claimed place whose objects are ours, as far as the driver can
    /// tell.
    async fn ours_of(&mut self, _place: &str, keys: &[String]) -> Result<Vec<String>, Error> {
        Ok(keys.to_vec())
    }
    /// Returns a key of the dataset's form with a multipart upload in progress.
    async fn upload_alike(&mut self, _place: &str) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// Removes what we wrote and listings do not show: incomplete uploads.
    async fn sweep_hidden(&mut self, _place: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Returns why the target keeps what it was asked to delete in a place, if it tells.
    async fn why_kept(&mut self, _place: &str) -> Option<&'static str> {
        None
    }
    /// Returns whether a place keeps versions of deleted objects that must not be removed.
    async fn keeps_versions(&mut self, _place: &str) -> bool {
        false
    }
}

/// State of a place with respect to a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not inspected: the driver inspects it when it prepares the place.
    Unseen,
    /// It does not exist.
    Absent,
    /// It exists, is empty and unmarked, and the run was about to create it, according to its
    /// journal.
    Bare,
    /// It carries the mark of this run or of one that the user named.
    Ours,
    /// It belongs to another, may be written to, and contains no keys of the dataset except ours.
    Foreign,
}

/// Inspects a place, and refuses one that may not be written to. Changes nothing, except that it
/// claims the dataset's keys in a foreign place that contains none of them.
///
/// # Errors
/// The place belongs to another, or the target did not answer as expected.
pub(crate) async fn look<P: Places>(places: &mut P, place: &str) -> Result<Standing, Error> {
    let title = places.title();
    let text = match places.look(place).await? {
        Look::Absent => return Ok(Standing::Absent),
        Look::There(text) => text,
    };
    match text.as_deref().and_then(Mark::parse) {
        Some(mark) if title.takes(&mark, place) => return Ok(Standing::Ours),
        Some(mark) => return Err(not_taken::<P>(place, &mark, &title)),
        None => {}
    }
    if title.adopts(place) {
        let page = places.page(place, Scope::Everything, None).await?;
        if page.shows_empty() {
            return Ok(Standing::Bare);
        }
    }
    if !title.allow_foreign {
        let reason = "it exists, and loadstone did not make it";
        return Err(Error::target(format!("use {} \"{place}\"", P::PLACE), reason)
            .of(Kind::NotOurs)
            .with_hint("choose another bucket prefix, or pass --allow-foreign for this target"));
    }
    claim(places, place, &title).await?;
    Ok(Standing::Foreign)
}

/// Returns whether a place is absent. Unlike [`look`], it claims nothing: a load that creates
/// places writes nothing to those of others.
///
/// # Errors
/// The target did not answer as expected.
pub(crate) async fn is_absent<P: Places>(places: &mut P, place: &str) -> Result<bool, Error> {
    Ok(places.look(place).await? == Look::Absent)
}

/// Makes sure that a foreign place contains no keys of the dataset except those that our runs
/// wrote.
async fn claim<P: Places>(places: &mut P, place: &str, title: &Title) -> Result<(), Error> {
    let key = title.claim_key();
    let refuse = |existing| match existing {
        Claim::Absent => Ok(None),
        Claim::Ours(text) => Ok(Some(text)),
        Claim::Other(mark) => Err(not_taken::<P>(place, &mark, title)),
        Claim::Stranger => Err(taken::<P>(place, &key)),
    };
    if let Some(text) = refuse(claim_in(places, place, title).await?)? {
        return places.write_beside(place, &key, &text).await;
    }
    if let Some(key) = places.upload_alike(place).await? {
        return Err(taken::<P>(place, &key));
    }
    let mut listing = sweep::Listing::new(title);
    loop {
        let begun_ns = places.reactor().now_ns();
        let page = places.page(place, Scope::Dataset, listing.token()).await?;
        // All keys of the dataset's form count: how many objects a mix puts is known only when it
        // ends.
        if let Some(key) = &page.alike {
            return Err(taken::<P>(place, key));
        }
        let spent_ns = places.reactor().now_ns() - begun_ns;
        match listing.turn(&page, spent_ns) {
            Ok(true) => {}
            Ok(false) => break,
            Err(reason) => {
                return Err(Error::target(format!("list {} \"{place}\"", P::PLACE), reason));
            }
        }
    }
    places.write(place, &key, &title.mark(place)).await?;
    // Without conditional writes, two runs may claim at once: the last write wins.
    match refuse(claim_in(places, place, title).await?)? {
        Some(text) => places.write_beside(place, &key, &text).await,
        None => Err(taken::<P>(place, &key)),
    }
}

/// The object with the key of a place's claim.
enum Claim {
    Absent,
    /// A claim of ours, with its text.
    Ours(String),
    /// A claim of a run that the user has not named, or of another target.
    Other(Mark),
    /// An object that is not a claim.
    Stranger,
}

async fn claim_in<P: Places>(places: &mut P, place: &str, title: &Title) -> Result<Claim, Error> {
    let Some(text) = places.read(place, &title.claim_key()).await? else {
        return Ok(Claim::Absent);
    };
    Ok(match Mark::parse(&text) {
        Some(mark) if title.takes(&mark, place) => Claim::Ours(text),
        Some(mark) => Claim::Other(mark),
        None => Claim::Stranger,
    })
}

fn taken<P: Places>(place: &str, key: &str) -> Error {
    let action = format!("write beside what {} \"{place}\" holds", P::PLACE);
    Error::target(action, format!("\"{key}\" is there, and this run did not write it"))
        .of(Kind::NotOurs)
        .with_hint("choose another object prefix: loadstone never overwrites foreign objects")
}

fn not_taken<P: Places>(place: &str, mark: &Mark, title: &Title) -> Error {
    let error = Error::target(format!("use {} \"{place}\"", P::PLACE), title.whose(mark, place));
    let run = &mark.run;
    if mark.is_copy_in(place) {
        return error.of(Kind::Copied).with_hint(
            "loadstone did not make it: choose another bucket prefix, or delete the copy yourself",
        );
    }
    if *run == title.run {
        return error
            .of(Kind::OfAnotherRun)
            .with_hint("leave one of the two targets out, or run each on its own");
    }
    error.of(Kind::OfAnotherRun).with_hint(format!(
        "remove it with `loadstone clean` and that run's folder, name the run with `--reuse {run}` \
         to go on with its data, or choose another bucket prefix"
    ))
}

/// Returns the mark of a place of ours, to be written again if the place stays.
///
/// # Errors
/// The place carries none of our marks.
pub(crate) async fn mark_of<P: Places>(places: &mut P, place: &str) -> Result<String, Error> {
    let action = || format!("delete {} \"{place}\"", P::PLACE);
    match places.look(place).await? {
        Look::Absent => Err(Error::target(action(), "it is not there").of(Kind::TargetAbsent)),
        Look::There(Some(text)) => match Mark::parse(&text) {
            Some(mark) if places.title().takes(&mark, place) => Ok(text),
            Some(mark) => Err(not_taken::<P>(place, &mark, &places.title())),
            None => Err(Error::target(action(), "it does not carry our mark").of(Kind::NotOurs)),
        },
        Look::There(None) => {
            Err(Error::target(action(), "it does not carry our mark").of(Kind::NotOurs))
        }
    }
}

/// Makes sure that a place exists and may be written to; creates and marks it if it does not. A
/// stop takes effect only after a creation in progress is complete.
///
/// # Errors
/// As [`look`], or the place cannot be created or marked.
pub(crate) async fn ready<P: Places>(places: &mut P, place: &str) -> Result<BucketState, Error> {
    match look(places, place).await? {
        Standing::Ours => return Ok(BucketState::Ours),
        Standing::Foreign => return Ok(BucketState::Foreign),
        Standing::Bare => {
            mark(places, place).await?;
            return Ok(BucketState::Created);
        }
        Standing::Absent | Standing::Unseen => {}
    }
    let pair = places.reactor().begin_pair().await;
    match places.create(place).await? {
        Made::New => mark_new(places, place, pair).await,
        Made::Exists => {
            drop(pair);
            wait_for_mark(places, place).await
        }
    }
}

/// Marks a place that the store reports as created, unless it turns out to have existed before.
/// Takes the pair that its creation began, and ends it early if there is nothing to mark.
pub(crate) async fn mark_new<P: Places>(
    places: &mut P,
    place: &str,
    pair: Pair,
) -> Result<BucketState, Error> {
    let page = places.page(place, Scope::Everything, None).await?;
    if !page.shows_empty() {
        drop(pair);
        return wait_for_mark(places, place).await;
    }
    mark(places, place).await?;
    Ok(BucketState::Created)
}

async fn mark<P: Places>(places: &mut P, place: &str) -> Result<(), Error> {
    let title = places.title();
    let text = title.mark(place);
    for _ in 0..TRIES {
        if places.write_mark(place, &text).await? {
            // Another run may have come at the same moment; one of the two marks remains.
            return match places.look(place).await? {
                Look::There(Some(current)) => match Mark::parse(&current) {
                    Some(mark) if title.takes(&mark, place) => Ok(()),
                    Some(mark) => Err(not_taken::<P>(place, &mark, &title)),
                    None => Err(unmarked::<P>(place)),
                },
                // The mark was written even if it is not visible yet.
                _ => Ok(()),
            };
        }
        wait(places).await;
    }
    Err(unmarked::<P>(place))
}

fn unmarked<P: Places>(place: &str) -> Error {
    let action = format!("mark {} \"{place}\"", P::PLACE);
    Error::target(action, "it was created, but does not have our mark")
        .with_hint("continue the run with --resume, or remove its data with `loadstone clean`")
}

/// Another host of the same campaign was faster, and is about to mark the place.
async fn wait_for_mark<P: Places>(places: &mut P, place: &str) -> Result<BucketState, Error> {
    for _ in 0..TRIES {
        if let Look::There(Some(text)) = places.look(place).await?
            && Mark::parse(&text).is_some()
        {
            break;
        }
        wait(places).await;
    }
    match look(places, place).await? {
        Standing::Ours => Ok(BucketState::Ours),
        Standing::Foreign => Ok(BucketState::Foreign),
        Standing::Bare => mark(places, place).await.map(|()| BucketState::Created),
        Standing::Absent | Standing::Unseen => {
            let action = format!("make {} \"{place}\"", P::PLACE);
            Err(Error::target(action, "the store says that it exists, but does not show it"))
        }
    }
}

async fn wait<P: Places>(places: &P) {
    let reactor = places.reactor();
    reactor.sleep_until(reactor.now_ns() + TRY_AGAIN_NS).await;
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
