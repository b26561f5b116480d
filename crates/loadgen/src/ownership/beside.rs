//! Load in a foreign place: nothing that others have written is overwritten or deleted.
//!
//! Everything that the run writes there carries its name, if the store keeps metadata. The first put of an
//! object is conditional if the store honours conditions, and otherwise follows a check. To find
//! out who owns an object, a client sends a separate request, which is not measured. If the object
//! belongs to another, the original request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Places, Title};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::operation::{Effect, Operation, OperationInfo, Scope};
use crate::outcome::{Completion, Outcome};
use crate::requests::{Request, Subject};
use crate::trial::Trial;

/// HTTP condition that the object does not exist.
pub(crate) const IF_NONE: Header<'static> = ("if-none-match", b"*");
/// Maximum number of objects that a trial remembers to have put, in foreign places only: 16 MiB.
const REMEMBERED_MAX: u64 = 1 << 27;

/// Name and value of a header.
pub(crate) type Header<'a> = (&'a str, &'a [u8]);

/// State of foreign places, for a trial that may write to them.
#[derive(Debug)]
pub(crate) struct ForeignPlaces {
    run: Vec<u8>,
    /// For each of the dataset's places, whether it is foreign.
    places: Box<[AtomicBool]>,
    /// Whether the store has accepted a claim without keeping its metadata.
    loses_metadata: AtomicBool,
    /// Whether the store has overwritten a claim despite a condition.
    lacks_conditions: AtomicBool,
    /// Objects that the trial has put, one bit each.
    put: Box<[AtomicU64]>,
}

/// How a put is tagged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OwnerTag {
    /// No tag: the place is ours.
    #[default]
    None,
    /// With the owner of the object.
    Run,
    /// With the owner, and on the condition that the object does not exist.
    RunIfAbsent,
}

/// The writer of an object, according to its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Writer {
    /// There is no object.
    Absent,
    /// The object names no run.
    Unnamed,
    Run(String),
}

impl Writer {
    /// Interprets the answer of an HTTP store; `None` if it does not reveal the writer.
    pub(crate) fn of(status: u16, is_ok: bool, run: Option<&str>) -> Option<Self> {
        match (status, run) {
            (404, _) => Some(Self::Absent),
            (_, Some(run)) if is_ok => Some(Self::Run(run.to_owned())),
            _ => is_ok.then_some(Self::Unnamed),
        }
    }
}

/// Owner of an object in a foreign place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Nobodys,
    Ours,
    Theirs,
}

/// Operations of a driver in a foreign place, if its store may keep metadata and honour conditions.
pub(crate) trait SharedPlace: Places {
    /// Returns what is known about foreign places, if the trial may write to them.
    fn known(&self) -> Option<&Arc<ForeignPlaces>>;
    fn dataset(&self) -> &Dataset;
    /// Sets the tag of subsequent puts.
    fn put_as(&mut self, tag: OwnerTag);
    async fn perform(&mut self, request: &Request) -> Completion;
    /// Fails a request without sending anything.
    fn refuse(&mut self, kind: Outcome, text: String) -> Completion;
    /// Returns the suffixes of the object's key, one for each object that a copy or a multipart
    /// upload creates.
    fn derived(&self, request: &Request) -> Vec<Vec<u8>>;
    /// Asks for the writer of an object of the dataset, or of an object derived from it.
    ///
    /// # Errors
    /// The answer, if it does not reveal the writer.
    async fn writer_of(&mut self, index: u64, suffix: &[u8]) -> Result<Writer, Completion>;
    /// Asks for the writer of the object with this key.
    async fn writer_at(&mut self, place: &str, key: &str) -> Result<Writer, Error>;
    /// Writes a small object that exists, on the condition that it does not; returns whether the
    /// store overwrote it nevertheless.
    async fn writes_over(&mut self, place: &str, key: &str, text: &str) -> Result<bool, Error>;
}

impl ForeignPlaces {
    /// Returns the state for a trial that may write to foreign places.
    pub(crate) fn of_trial(trial: &Trial) -> Option<Arc<Self>> {
        trial.allow_foreign.then(|| Arc::new(Self::new(&Dataset::new(trial), &trial.run)))
    }

    pub(super) fn new(dataset: &Dataset, run: &str) -> Self {
        let spec = dataset.spec();
        let words = spec.objects.min(REMEMBERED_MAX).div_ceil(64);
        Self {
            run: run.as_bytes().to_vec(),
            places: (0..spec.buckets).map(|_| AtomicBool::new(false)).collect(),
            loses_metadata: AtomicBool::new(false),
            lacks_conditions: AtomicBool::new(false),
            put: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the headers of a put, sorted; `name` is that of the metadata.
    pub(crate) fn headers(&self, tag: OwnerTag, name: &'static str) -> Vec<Header<'_>> {
        let first = (tag == OwnerTag::RunIfAbsent).then_some(IF_NONE);
        let named = (tag != OwnerTag::None).then_some((name, self.run.as_slice()));
        first.into_iter().chain(named).collect()
    }

    /// Returns whether a request may change something in a foreign place.
    #[inline]
    pub(crate) fn concerns(&self, request: &Request, dataset: &Dataset) -> bool {
        let index = match request.subject {
            Subject::Object(object) | Subject::Copy(object) | Subject::Block { object, .. } => {
                object.index
            }
            Subject::Batch { first, .. } => first,
            Subject::Bucket(_) | Subject::Listing(_) => return false,
        };
        let at = usize::try_from(dataset.bucket_of(index)).unwrap_or(usize::MAX);
        self.places.get(at).is_some_and(|is_theirs| is_theirs.load(Ordering::Relaxed))
    }

    fn keeps_metadata(&self) -> bool {
        !self.loses_metadata.load(Ordering::Relaxed)
    }

    fn word(&self, index: u64) -> Option<&AtomicU64> {
        self.put.get(usize::try_from(index / 64).unwrap_or(usize::MAX))
    }

    fn is_put(&self, index: u64) -> bool {
        self.word(index).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (index % 64) != 0)
    }

    fn note_put(&self, index: u64) {
        if let Some(word) = self.word(index) {
            word.fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
    }
}

/// Executes a request in a foreign place.
pub(crate) async fn perform<N: SharedPlace>(
    client: &mut N,
    request: &Request,
    foreign: &ForeignPlaces,
) -> Completion {
    let tag = if foreign.keeps_metadata() { OwnerTag::Run } else { OwnerTag::None };
    client.put_as(tag);
    let answer = match request.operation {
        Operation::Put => put(client, request, foreign, tag).await,
        _ if tag == OwnerTag::None => client.perform(request).await,
        _ => match refusal(client, request).await {
            Some(refusal) => refusal,
            None => client.perform(request).await,
        },
    };
    client.put_as(OwnerTag::None);
    answer
}

/// Returns the failure of a request that would change another's object, or whose check failed.
async fn refusal<N: SharedPlace>(client: &mut N, request: &Request) -> Option<Completion> {
    let OperationInfo { scope, effect, .. } = *request.operation.info();
    let (kind, changed) = match effect {
        Effect::Describes | Effect::Rewrites => {
            (Outcome::EXISTS, vec![(request.object().index, Vec::new())])
        }
        Effect::Deletes | Effect::Prunes if scope != Scope::Batch => {
            (Outcome::DENIED, vec![(request.object().index, Vec::new())])
        }
        Effect::Deletes | Effect::Prunes => {
            let ((first, keys), step) = (request.batch(), client.dataset().spec().buckets);
            let numbers = (0..u64::from(keys)).map(|number| (first + number * step, Vec::new()));
            (Outcome::DENIED, numbers.collect())
        }
        Effect::Copies | Effect::Puts => {
            let index = request.object().index;
            let changed = client.derived(request).into_iter().map(|suffix| (index, suffix));
            (Outcome::EXISTS, changed.collect())
        }
        Effect::None | Effect::Begins | Effect::Buckets | Effect::WritesBlock => return None,
    };
    for (index, suffix) in changed {
        match whose(client, index, &suffix).await {
            Ok(Whose::Theirs) => return Some(refuse(client, kind)),
            Ok(_) => {}
            Err(failed) => return Some(failed),
        }
    }
    None
}

async fn put<N: SharedPlace>(
    client: &mut N,
    request: &Request,
    foreign: &ForeignPlaces,
    named: OwnerTag,
) -> Completion {
    let object = request.object();
    let is_conditional = !foreign.lacks_conditions.load(Ordering::Relaxed);
    let is_again = foreign.is_put(object.index);
    // The object probably exists, so check first: a failed condition would cost the bytes of the
    // put.
    let is_likely_there = is_again || object.version > 1;
    let owner = match named == OwnerTag::Run && (is_likely_there || !is_conditional) {
        true => whose(client, object.index, b"").await,
        false if is_again => Ok(Whose::Ours),
        false => Ok(Whose::Nobodys),
    };
    let is_first = match owner {
        Ok(Whose::Nobodys) => is_conditional,
        Ok(Whose::Ours) => false,
        Ok(Whose::Theirs) => return refuse(client, Outcome::EXISTS),
        Err(failed) => return failed,
    };
    if is_first {
        client.put_as(OwnerTag::RunIfAbsent);
    }
    let mut answer = client.perform(request).await;
    if is_first && answer.outcome == Outcome::http(412) {
        // A repeated trial meets the objects that it put before it was stopped.
        let owner = match named {
            OwnerTag::Run => whose(client, object.index, b"").await,
            _ => Ok(Whose::Theirs),
        };
        answer = match owner {
            // Some stores treat a key with a delete marker as existing.
            Ok(Whose::Ours | Whose::Nobodys) => {
                client.put_as(named);
                client.perform(request).await
            }
            Ok(Whose::Theirs) => refuse(client, Outcome::EXISTS),
            Err(failed) => failed,
        };
    }
    if answer.outcome.is_ok() {
        foreign.note_put(object.index);
    }
    answer
}

#[cold]
fn refuse<N: SharedPlace>(client: &mut N, kind: Outcome) -> Completion {
    client.refuse(kind, "the object is there, and this run did not write it".to_owned())
}

async fn whose<N: SharedPlace>(
    client: &mut N,
    index: u64,
    suffix: &[u8],
) -> Result<Whose, Completion> {
    let writer = client.writer_of(index, suffix).await?;
    Ok(whose_by(&writer, &client.title()))
}

fn whose_by(writer: &Writer, title: &Title) -> Whose {
    match writer {
        Writer::Absent => Whose::Nobodys,
        Writer::Run(run) if title.is_ours(run) => Whose::Ours,
        Writer::Unnamed | Writer::Run(_) => Whose::Theirs,
    }
}

/// Tests how the store handles a claim: whether it keeps the owner in metadata, and whether it
/// honours the condition that an object does not exist.
pub(crate) async fn try_claim<N: SharedPlace>(
    client: &mut N,
    place: &str,
    key: &str,
    text: &str,
) -> Result<(), Error> {
    let Some(foreign) = client.known().map(Arc::clone) else { return Ok(()) };
    let dataset = client.dataset().spec();
    let number = (0..dataset.buckets).find(|number| dataset.bucket(*number) == place);
    let Some(number) = number.and_then(|number| usize::try_from(number).ok()) else {
        return Ok(());
    };
    if !says_whose(client, place, key).await? {
        foreign.loses_metadata.store(true, Ordering::Relaxed);
    }
    if client.writes_over(place, key, text).await? {
        foreign.lacks_conditions.store(true, Ordering::Relaxed);
    }
    foreign.places[number].store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns whether objects that this run has put in a claimed place name the run.
pub(crate) async fn names_writers<N: SharedPlace>(
    client: &mut N,
    place: &str,
) -> Result<bool, Error> {
    let claim = client.title().claim_key();
    says_whose(client, place, &claim).await
}

/// Returns whether a claim names the run that wrote it.
async fn says_whose<N: SharedPlace>(client: &mut N, place: &str, key: &str) -> Result<bool, Error> {
    match client.writer_at(place, key).await? {
        Writer::Run(_) => Ok(true),
        Writer::Unnamed => Ok(false),
        Writer::Absent => {
            let action = format!("look at \"{key}\" in {} \"{place}\"", N::PLACE);
            Err(Error::target(action, "it was there, and is gone"))
        }
    }
}

/// Returns those of some keys whose objects are ours or no longer exist.
pub(crate) async fn keys_of_ours<N: SharedPlace>(
    client: &mut N,
    place: &str,
    keys: &[String],
) -> Result<Vec<String>, Error> {
    let title = client.title();
    // If the claim does not name its owner, no object does.
    if keys.is_empty() || !names_writers(client, place).await? {
        return Ok(keys.to_vec());
    }
    let mut ours = Vec::with_capacity(keys.len());
    for key in keys {
        if whose_by(&client.writer_at(place, key).await?, &title) != Whose::Theirs {
            ours.push(key.clone());
        }
    }
    Ok(ours)
}
