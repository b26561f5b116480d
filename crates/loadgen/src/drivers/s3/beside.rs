//! In another's bucket: nothing that others have written is written over or deleted.
//!
//! What the run writes there carries its name, where the store keeps metadata. The first put of an
//! object says `If-None-Match: *` where the store heeds it, and follows a look where not. To look
//! whose an object is takes a request of its own, which is not measured; another's makes the request
//! that wanted it a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loadstone_wire::http1::Method;

use super::S3Client;
use super::head::HeadSpec;
use super::objects::COPY_SUFFIX;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::Places;
use crate::requests::{Request, Subject};
use crate::transport::connection::{Failure, Reply};
use crate::transport::transfer::Nothing;

/// The metadata that says which run wrote an object.
const RUN: &str = "x-amz-meta-loadstone-run";
/// The condition that nothing is there.
pub(super) const IF_NONE: Header<'static> = ("if-none-match", b"*");
/// Objects of which a trial remembers that it has put them: 16 MiB, in another's bucket alone.
const REMEMBERED_MAX: u64 = 1 << 27;

/// A header's name and value.
type Header<'a> = (&'a str, &'a [u8]);

/// What a trial that may write into others' buckets knows of them.
#[derive(Debug)]
pub(super) struct Beside {
    run: Vec<u8>,
    /// Which of the dataset's buckets are others'.
    buckets: Box<[AtomicBool]>,
    /// Whether the store has taken a claim without its metadata.
    loses_metadata: AtomicBool,
    /// Whether the store has written over a claim that it was not to write over.
    lacks_conditions: AtomicBool,
    /// Objects that the trial has put, a bit for each.
    put: Box<[AtomicU64]>,
}

/// What a put says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// Nothing: the bucket is ours.
    #[default]
    Plain,
    /// Whose the object is.
    Named,
    /// That, and that it must be the first.
    First,
}

/// Whose an object in another's bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Nobodys,
    Ours,
    Theirs,
}

impl Beside {
    pub(super) fn new(dataset: &Dataset, run: &str) -> Self {
        let spec = dataset.spec();
        let words = spec.objects.min(REMEMBERED_MAX).div_ceil(64);
        Self {
            run: run.as_bytes().to_vec(),
            buckets: (0..spec.buckets).map(|_| AtomicBool::new(false)).collect(),
            loses_metadata: AtomicBool::new(false),
            lacks_conditions: AtomicBool::new(false),
            put: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the headers of a put, sorted.
    pub(super) fn headers(&self, manner: Manner) -> Vec<Header<'_>> {
        let first = (manner == Manner::First).then_some(IF_NONE);
        let named = (manner != Manner::Plain).then_some((RUN, self.run.as_slice()));
        first.into_iter().chain(named).collect()
    }

    fn is_theirs(&self, bucket: u64) -> bool {
        let at = usize::try_from(bucket).unwrap_or(usize::MAX);
        self.buckets.get(at).is_some_and(|is_theirs| is_theirs.load(Ordering::Relaxed))
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

impl S3Client {
    /// Returns what is known of others' buckets, if the request is to change something in one.
    #[inline]
    pub(super) fn beside(&self, request: &Request) -> Option<Arc<Beside>> {
        let beside = self.thread.s3.beside.as_ref()?;
        let (Subject::Object(object) | Subject::Block { object, .. }) = request.subject else {
            let Subject::Batch { first, .. } = request.subject else { return None };
            return beside.is_theirs(self.thread.dataset.bucket_of(first)).then(|| beside.clone());
        };
        beside.is_theirs(self.thread.dataset.bucket_of(object.index)).then(|| beside.clone())
    }

    /// Does a request in another's bucket.
    pub(super) async fn perform_beside(
        &mut self,
        request: &Request,
        beside: &Beside,
    ) -> Completion {
        let keeps_metadata = !beside.loses_metadata.load(Ordering::Relaxed);
        self.manner = if keeps_metadata { Manner::Named } else { Manner::Plain };
        let refusal = match request.operation {
            Operation::Put => return self.put_beside(request, beside).await,
            Operation::MultipartPut | Operation::Post if keeps_metadata => {
                self.refuse_theirs(request.object().index, b"", Outcome::EXISTS).await
            }
            Operation::Copy if keeps_metadata => {
                self.refuse_theirs(request.object().index, COPY_SUFFIX, Outcome::EXISTS).await
            }
            Operation::Delete if keeps_metadata => {
                self.refuse_theirs(request.object().index, b"", Outcome::DENIED).await
            }
            Operation::BulkDelete if keeps_metadata => {
                let (first, keys) = request.batch();
                let step = self.thread.dataset.spec().buckets;
                let mut refusal = None;
                for number in 0..u64::from(keys) {
                    let index = first + number * step;
                    refusal = self.refuse_theirs(index, b"", Outcome::DENIED).await;
                    if refusal.is_some() {
                        break;
                    }
                }
                refusal
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => refusal,
            None => self.perform(request).await,
        }
    }

    async fn put_beside(&mut self, request: &Request, beside: &Beside) -> Completion {
        let (object, named) = (request.object(), self.manner);
        let is_conditional = !beside.lacks_conditions.load(Ordering::Relaxed);
        let is_ours = beside.is_put(object.index);
        if !is_ours {
            // What an earlier trial has put is asked for: that a put fails would cost its bytes.
            let asks = (object.version > 1 || !is_conditional) && named == Manner::Named;
            let found = match asks {
                true => self.whose(object.index, b"").await,
                false => Ok(Whose::Nobodys),
            };
            match found {
                Ok(Whose::Nobodys) if is_conditional => self.manner = Manner::First,
                Ok(Whose::Nobodys | Whose::Ours) => {}
                Ok(Whose::Theirs) => return self.refuse(Outcome::EXISTS),
                Err(failed) => return failed.completion(),
            }
        }
        let mut answer = self.put(request).await;
        if self.manner == Manner::First && answer.outcome == Outcome::http(412) {
            // A trial that is repeated comes to what it put before it was stopped.
            let found = match named {
                Manner::Named => self.whose(object.index, b"").await,
                _ => Ok(Whose::Theirs),
            };
            answer = match found {
                // To some stores a key with a delete marker is there.
                Ok(Whose::Ours | Whose::Nobodys) => {
                    self.manner = named;
                    self.put(request).await
                }
                Ok(Whose::Theirs) => self.refuse(Outcome::EXISTS),
                Err(failed) => failed.completion(),
            };
        }
        if answer.outcome.is_ok() {
            beside.note_put(object.index);
        }
        answer
    }

    /// Returns the answer to a request on an object of another's, or on one that cannot be asked for.
    async fn refuse_theirs(
        &mut self,
        index: u64,
        suffix: &[u8],
        kind: Outcome,
    ) -> Option<Completion> {
        match self.whose(index, suffix).await {
            Ok(Whose::Theirs) => Some(self.refuse(kind)),
            Ok(_) => None,
            Err(failed) => Some(failed.completion()),
        }
    }

    #[cold]
    fn refuse(&mut self, kind: Outcome) -> Completion {
        let text = "the object is there, and this run did not write it".to_owned();
        let outcome = self.connection.object_to(Failure::Told(kind, text));
        let now_ns = self.connection.reactor().now_ns();
        Completion::plain(outcome, now_ns, 0, now_ns)
    }

    async fn whose(&mut self, index: u64, suffix: &[u8]) -> Result<Whose, Reply> {
        let thread = std::rc::Rc::clone(&self.thread);
        self.head.at_object(&thread.dataset, index);
        self.head.add_to_key(suffix);
        self.whose_is_here().await
    }

    /// Asks whose the object is that the head writer points at.
    async fn whose_is_here(&mut self) -> Result<Whose, Reply> {
        let reply = self.ask_for_body(&HeadSpec::new(Method::Head), &Nothing, &[RUN]).await;
        match (reply.status, self.collect.header(RUN)) {
            (404, _) => Ok(Whose::Nobodys),
            _ if !reply.outcome.is_ok() => Err(reply),
            (_, Some(run)) if self.thread.s3.title.is_ours(run) => Ok(Whose::Ours),
            _ => Ok(Whose::Theirs),
        }
    }

    /// Finds out what the store makes of a claim: whether it keeps whose it is, and whether it
    /// heeds that a put must be the first.
    pub(super) async fn try_claim(
        &mut self,
        bucket: &str,
        key: &str,
        text: &str,
    ) -> Result<(), Error> {
        let Some(beside) = self.thread.s3.beside.clone() else { return Ok(()) };
        let dataset = self.thread.dataset.spec();
        let number = (0..dataset.buckets).find(|number| dataset.bucket(*number) == bucket);
        let Some(number) = number.and_then(|number| usize::try_from(number).ok()) else {
            return Ok(());
        };
        let what = || format!("write \"{key}\" to bucket \"{bucket}\"");
        if self.names_its_run(bucket, key).await?.is_none() {
            beside.loses_metadata.store(true, Ordering::Relaxed);
        }
        let headers = beside.headers(Manner::First);
        self.renew_deadline();
        self.head.at(bucket, key);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put) };
        let reply = self.ask(&spec, &text.as_bytes(), &[200, 201, 400, 412, 501]).await;
        if !reply.outcome.is_ok() {
            return Err(self.refused(what(), &reply));
        }
        if reply.status != 412 {
            beside.lacks_conditions.store(true, Ordering::Relaxed);
        }
        beside.buckets[number].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the run that an object names as its own, if it does.
    async fn names_its_run(&mut self, bucket: &str, key: &str) -> Result<Option<String>, Error> {
        self.renew_deadline();
        self.head.at(bucket, key);
        let reply = self.ask_for_body(&HeadSpec::new(Method::Head), &Nothing, &[RUN]).await;
        match reply.outcome.is_ok() {
            true => Ok(self.collect.header(RUN).map(str::to_owned)),
            false => Err(self.refused(format!("look at \"{key}\" in bucket \"{bucket}\""), &reply)),
        }
    }

    /// Returns those of some keys whose objects are ours, or gone.
    pub(super) async fn keys_of_ours(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> Result<Vec<String>, Error> {
        let claim = self.title().claim_key();
        // Where the claim does not say whose it is, nothing does.
        if keys.is_empty() || self.names_its_run(bucket, &claim).await?.is_none() {
            return Ok(keys.to_vec());
        }
        let mut ours = Vec::with_capacity(keys.len());
        for key in keys {
            self.renew_deadline();
            self.head.at(bucket, key);
            match self.whose_is_here().await {
                Ok(Whose::Theirs) => {}
                Ok(_) => ours.push(key.clone()),
                Err(reply) => {
                    let what = format!("look at \"{key}\" in bucket \"{bucket}\"");
                    return Err(self.refused(what, &reply));
                }
            }
        }
        Ok(ours)
    }
}
