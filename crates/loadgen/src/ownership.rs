//! What is ours: places are made and marked, refused when they are another's, and swept of exactly
//! what this run may have written. Written once, over the few things that each driver can do.
//!
//! A *place* is a bucket, a container, a namespace. A place that loadstone makes carries a *mark*
//! that names the run. In a foreign place a *claim*, which is a mark beside the dataset's keys,
//! says which run writes there; a place never gets one before a listing has shown that no key of
//! the dataset is taken.

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

/// Version of marks.
const FORMAT: u32 = 1;
/// A new place may take a moment to be seen by all of a store's servers, and by other hosts.
const TRIES: u32 = 10;
const TRY_AGAIN_NS: u64 = 300_000_000;
/// Digits of a digest in a mark.
const DIGITS: usize = 16;
/// The claim's key, behind the prefix of the dataset's keys.
const CLAIM: &str = ".loadstone-claim";

/// What was found, or done, when a bucket was readied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketState {
    /// It was not there; we made and marked it.
    Created,
    /// It was there and carries our mark.
    Ours,
    /// It was there without our mark, and the campaign allows it.
    Foreign,
}

/// The text that says whose a place is: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    loadstone: u32,
    pub(crate) run: String,
    /// Stands for the name of the run's target: two targets may lead to one store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Stands for the name of the place that it marks, so that a copy of it marks no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl Mark {
    /// Reads a mark; what is none, or one of an unknown version, is not ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mark: Self = serde_json::from_str(text.trim()).ok()?;
        (mark.loadstone == FORMAT).then_some(mark)
    }

    /// Writes the mark of a place of a run's target.
    pub(crate) fn of(run: &str, target: &str, place: &str) -> String {
        let (target, place) = (Some(digest(target)), Some(digest(place)));
        let mark = Self { loadstone: FORMAT, run: run.to_owned(), target, place };
        serde_json::to_string(&mark).expect("a number and texts")
    }

    /// Tells whether it may be what a target of that name has written: older marks name none.
    pub(crate) fn fits(&self, target: &str) -> bool {
        self.target.as_ref().is_none_or(|found| *found == digest(target))
    }

    /// Tells whether it was written for another place: older marks name none.
    pub(crate) fn is_copy_in(&self, place: &str) -> bool {
        self.place.as_ref().is_some_and(|found| *found != digest(place))
    }
}

/// Returns what stands for a name in a mark: a header of Swift holds no more than 256 bytes.
fn digest(name: &str) -> String {
    String::from_utf8_lossy(&hex_of_sha256(&sha256(name.as_bytes()))[..DIGITS]).into_owned()
}

/// What a trial may take for its own.
#[derive(Debug)]
pub(crate) struct Title {
    pub(crate) run: String,
    /// The target's name.
    target: String,
    ownership: Ownership,
    pub(crate) allow_foreign: bool,
    dataset: Dataset,
    /// Gives the key of the object that a key was derived from: of a copy, of a part.
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

    /// Tells whether a run is this one, or one that the user has named.
    pub(crate) fn is_ours(&self, run: &str) -> bool {
        run == self.run || self.ownership.runs.iter().any(|named| named == run)
    }

    /// Tells whether a place with this mark is this run's on this target, or a named run's.
    pub(crate) fn takes(&self, mark: &Mark, place: &str) -> bool {
        self.is_ours(&mark.run)
            && !mark.is_copy_in(place)
            && (mark.run != self.run || mark.fits(&self.target))
    }

    /// Returns the mark of a place that this run makes on this target.
    pub(crate) fn mark(&self, place: &str) -> String {
        Mark::of(&self.run, &self.target, place)
    }

    /// Says whose a mark is that is not taken.
    fn whose(&self, mark: &Mark, place: &str) -> String {
        if mark.is_copy_in(place) {
            "its mark is a copy of another place's".to_owned()
        } else if mark.run == self.run {
            "another target of this run made it: both lead to the same store".to_owned()
        } else {
            format!("run {} made it", mark.run)
        }
    }

    /// Tells whether the run's journal holds a place, so that a bare one is what a kill left.
    fn adopts(&self, place: &str) -> bool {
        self.ownership.adopt.iter().any(|name| name == place)
    }

    /// Tells whether a key is one that the dataset puts in this place: an object, or a copy or a
    /// part of it, of the dataset's numbers or those that its mixes may have put.
    pub(crate) fn owns(&self, place: &str, key: &str) -> bool {
        self.dataset.holds(place, (self.plain)(key), &self.ownership.written)
    }

    /// Tells whether a key has the form of the dataset's, whatever its number.
    pub(crate) fn is_alike(&self, key: &str) -> bool {
        self.dataset.index_of((self.plain)(key)).is_some()
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.dataset.spec().object_prefix
    }

    pub(crate) fn claim_key(&self) -> String {
        format!("{}{CLAIM}", self.prefix())
    }

    /// Returns how many objects may at most be found in one place.
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

    /// Adds a key to a page, as ours or as another.
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

/// What a look at a place shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Absent,
    /// It is there, with this text where a mark would be.
    There(Option<String>),
}

/// What came of making a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// It is there now; some stores say so too when it was there before.
    New,
    /// It was there.
    Exists,
}

/// What came of removing a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    Gone,
    NotEmpty,
}

impl Removed {
    /// Reads what a store that speaks HTTP answered; `None` if it neither did it nor said why not.
    pub(crate) fn of(status: u16, is_ok: bool) -> Option<Self> {
        match status {
            404 => Some(Self::Gone),
            409 => Some(Self::NotEmpty),
            _ => is_ok.then_some(Self::Gone),
        }
    }
}

/// Tells whether a store that speaks HTTP said no to the making of a place, and so made none.
pub(crate) fn says_no(status: u16) -> bool {
    (400..500).contains(&status) && status != 408
}

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that begin like the dataset's.
    Dataset,
    /// All.
    Everything,
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) owned: Vec<String>,
    /// Keys that are neither ours nor the mark.
    pub(crate) others: u64,
    /// One of those.
    pub(crate) stranger: Option<String>,
    /// A key of the form of the dataset's, whatever its number: a mix may come to put it.
    pub(crate) alike: Option<String>,
    /// What tells this page from others.
    pub(crate) first: Option<String>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Tells whether a first page shows that a place is empty: one that goes on shows nothing yet.
    pub(crate) fn shows_empty(&self) -> bool {
        self.owned.is_empty() && self.others == 0 && self.next.is_none()
    }
}

/// The steps that each driver can take with places. No step decides anything: `ownership` calls them in an
/// order that leaves others' data alone, and relies on what each of them promises here. `drivers/toy_http.rs`
/// implements them over HTTP, `drivers/toy.rs` in memory.
///
/// Every step returns an error where the target did not answer, or refused it; nothing is taken to be absent
/// because it could not be looked at.
pub(crate) trait Places {
    /// The word for a place in messages: bucket, container, namespace.
    const PLACE: &'static str;
    /// Returns what the trial may take for its own.
    fn title(&self) -> Arc<Title>;
    /// Returns the reactor of the client's thread: waits happen on it, and a stop waits for a pair of steps.
    fn reactor(&self) -> Rc<Reactor>;
    /// Tells whether a place is there, and which text it has where a mark would be. Changes nothing.
    async fn look(&mut self, place: &str) -> Result<Look, Error>;
    /// Makes a place without a mark. `Made::Exists` where somebody else made it; `Made::New` also where that
    /// is not known, as after a retry: the caller lists a new place before it marks it.
    async fn create(&mut self, place: &str) -> Result<Made, Error>;
    /// Writes the mark; `false` if the store does not see the place yet. A mark that is there stays, if the
    /// store has conditional writes.
    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error>;
    /// Deletes the mark and nothing else. Nothing to do where the mark goes with its place.
    async fn delete_mark(&mut self, place: &str) -> Result<(), Error>;
    /// Removes an empty place. **It never deletes what is in a place**: somebody may have put an object there
    /// after the last listing, so the store must refuse to remove a place that is not empty, in one step, as
    /// `DeleteBucket` and `rmdir` do; that is `Removed::NotEmpty`. A driver of a store that would delete the
    /// content with the place must not ask for it: it leaves the place and returns `NotEmpty`.
    async fn remove(&mut self, place: &str) -> Result<Removed, Error>;
    /// Lists one page of a place from `token` on, its keys sorted into ours and others' by [`Title::sort`]; an
    /// empty page of a place that is not there.
    async fn page(&mut self, place: &str, scope: Scope, token: Option<&str>)
    -> Result<Page, Error>;
    /// Deletes these keys and no others; returns how many are gone. Keys that were not there count.
    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error>;
    /// Reads a small object, if it is there: a claim, or a mark.
    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error>;
    /// Writes a small object: a claim. An object that is there stays, if the store has conditional writes;
    /// the caller reads it back to see whose it is.
    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error>;
    /// Takes note that the trial writes in another's place, in which its claim, of this text, lies
    /// under this key: what it writes there is to be known from what others write.
    async fn write_beside(&mut self, _place: &str, _key: &str, _text: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Returns those of some keys in a claimed place whose objects are ours, as far as the driver
    /// can tell.
    async fn ours_of(&mut self, _place: &str, keys: &[String]) -> Result<Vec<String>, Error> {
        Ok(keys.to_vec())
    }
    /// Returns a key of the dataset's form that is being uploaded in parts.
    async fn upload_alike(&mut self, _place: &str) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// Removes what listings do not show of ours: uploads that were never completed.
    async fn sweep_hidden(&mut self, _place: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Returns why the target keeps what it was asked to delete in a place, where it tells.
    async fn why_kept(&mut self, _place: &str) -> Option<&'static str> {
        None
    }
    /// Tells whether a place keeps versions of what was deleted in it, and they are to stay.
    async fn keeps_versions(&mut self, _place: &str) -> bool {
        false
    }
}

/// How a place stands to a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not looked at: the driver looks when it readies the place.
    Unseen,
    /// It is not there.
    Absent,
    /// It is there, empty and unmarked, and the run's journal says that it was about to make it.
    Bare,
    /// It carries the mark of this run or of one that the user named.
    Ours,
    /// It is another's, may be written beside, and nothing of the dataset's is in it but ours.
    Foreign,
}

/// Looks how a place stands, and refuses one that may not be written to. Changes nothing, except
/// that it claims the dataset's keys in a foreign place that has none of them.
///
/// # Errors
/// The place is another's, or the target did not answer as it must.
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
        let found = "it exists, and loadstone did not make it";
        return Err(Error::target(format!("use {} \"{place}\"", P::PLACE), found)
            .of(Kind::NotOurs)
            .with_hint("choose another bucket prefix, or pass --allow-foreign for this target"));
    }
    claim(places, place, &title).await?;
    Ok(Standing::Foreign)
}

/// Tells whether a place is not there. Unlike [`look`] it claims nothing: load that makes places
/// writes nothing in those of others.
///
/// # Errors
/// The target did not answer as it must.
pub(crate) async fn is_absent<P: Places>(places: &mut P, place: &str) -> Result<bool, Error> {
    Ok(places.look(place).await? == Look::Absent)
}

/// Makes sure that nothing of the dataset's is in a foreign place but what our runs wrote.
async fn claim<P: Places>(places: &mut P, place: &str, title: &Title) -> Result<(), Error> {
    let key = title.claim_key();
    let refuse = |found| match found {
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
        // Not only keys of the dataset: how far its mixes put beyond it shows when they end.
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
    // Two runs may claim at once where the store knows no conditional writes: the last one has it.
    match refuse(claim_in(places, place, title).await?)? {
        Some(text) => places.write_beside(place, &key, &text).await,
        None => Err(taken::<P>(place, &key)),
    }
}

/// What stands where a place's claim would be.
enum Claim {
    Absent,
    /// One of ours, and its text.
    Ours(String),
    /// That of a run that the user has not named, or of another target.
    Other(Mark),
    /// An object that is no claim.
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
    let what = format!("write beside what {} \"{place}\" holds", P::PLACE);
    Error::target(what, format!("\"{key}\" is there, and this run did not write it"))
        .of(Kind::NotOurs)
        .with_hint("choose another object prefix: loadstone never writes over another's objects")
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

/// Returns the mark of a place of ours, to be written again should the place stay.
///
/// # Errors
/// It carries none of ours.
pub(crate) async fn mark_of<P: Places>(places: &mut P, place: &str) -> Result<String, Error> {
    let what = || format!("delete {} \"{place}\"", P::PLACE);
    match places.look(place).await? {
        Look::Absent => Err(Error::target(what(), "it is not there").of(Kind::TargetAbsent)),
        Look::There(Some(text)) => match Mark::parse(&text) {
            Some(mark) if places.title().takes(&mark, place) => Ok(text),
            Some(mark) => Err(not_taken::<P>(place, &mark, &places.title())),
            None => Err(Error::target(what(), "it does not carry our mark").of(Kind::NotOurs)),
        },
        Look::There(None) => {
            Err(Error::target(what(), "it does not carry our mark").of(Kind::NotOurs))
        }
    }
}

/// Makes sure that a place is there and may be written to; makes and marks it where it is not.
/// What was begun of that is ended before a stop is obeyed.
///
/// # Errors
/// As [`look`], or the place cannot be made or marked.
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

/// Marks a place that the store says it made, unless it shows that it was there before. It takes
/// the pair that its making began, and gives it up where there is nothing to mark.
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
            // Another run may have come at the same moment; one of the two marks stands.
            return match places.look(place).await? {
                Look::There(Some(found)) => match Mark::parse(&found) {
                    Some(mark) if title.takes(&mark, place) => Ok(()),
                    Some(mark) => Err(not_taken::<P>(place, &mark, &title)),
                    None => Err(unmarked::<P>(place)),
                },
                // What is not seen yet was written all the same.
                _ => Ok(()),
            };
        }
        wait(places).await;
    }
    Err(unmarked::<P>(place))
}

fn unmarked<P: Places>(place: &str) -> Error {
    let what = format!("mark {} \"{place}\"", P::PLACE);
    Error::target(what, "it was made, and shows no mark of ours")
        .with_hint("the run goes on with --resume, and `loadstone clean` removes what it made")
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
            let what = format!("make {} \"{place}\"", P::PLACE);
            Err(Error::target(what, "the store says that it is there, and does not show it"))
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
