//! Which request is next: operation and object, from the ticket's number and the seed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chance::{mix64, unit};
use crate::dataset::{Dataset, KeyChooser};
use crate::operation::Operation;
use crate::trial::{Options, Trial};

/// One operation on one object (or one bucket, or one batch of keys).
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// The object's number; for `list` and bucket operations the bucket's; for `bulk_delete` the
    /// first of [`Request::keys`] objects, which follow each other in steps of `dataset.buckets`.
    pub index: u64,
    /// Objects in a bulk request, otherwise 1.
    pub keys: u32,
    /// 64 bits of chance that belong to this request alone: where ranges start, and the like. For
    /// `read`, `write` and `append` the block's number in the object; for the first two the trial's
    /// key order chooses it.
    pub chance: u64,
    /// Whether the bytes that come back are to be checked.
    pub is_verified: bool,
}

/// The tickets that all threads draw from.
#[derive(Debug, Default)]
pub struct Tickets {
    next: AtomicU64,
    limit: AtomicU64,
    /// Objects that mixes have put beyond the dataset.
    fresh: AtomicU64,
    /// Objects that appends have begun, in all stages of the trial together.
    begun: Arc<AtomicU64>,
}

impl Tickets {
    /// Makes the tickets of a stage; objects that a mix puts are numbered from `fresh` on, beyond
    /// the dataset, so that no stage and no trial writes over what another has put.
    #[must_use]
    pub fn with_fresh_from(fresh: u64, begun: Arc<AtomicU64>) -> Self {
        Self { fresh: AtomicU64::new(fresh), begun, ..Self::default() }
    }

    /// Starts a new iteration or stage with `limit` tickets.
    pub fn restart(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.next.store(0, Ordering::Release);
    }

    fn draw(&self, count: u64) -> std::ops::Range<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        // Looked at first, so that clients that ask again and again cannot make it overflow.
        if self.next.load(Ordering::Relaxed) >= limit {
            return 0..0;
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        first.min(limit)..(first + count).min(limit)
    }

    /// Tells whether every ticket has been drawn.
    pub(crate) fn are_used_up(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }
}

/// Objects that a thread remembers having put, for the deletes of a mix.
const WRITTEN_MAX: usize = 1 << 16;

/// Chooses the requests of one load thread.
#[derive(Debug)]
pub struct Requests {
    shares: Vec<(f64, Operation)>,
    is_mix: bool,
    objects: u64,
    buckets: u64,
    bulk_keys: u64,
    trial_seed: u64,
    seed: u64,
    verify: f64,
    chooser: KeyChooser,
    /// Blocks in the largest object, and who chooses among those of all objects.
    blocks: u64,
    block_chooser: KeyChooser,
    chunk: u64,
    tickets: std::ops::Range<u64>,
    written: VecDeque<u64>,
    appends: Option<Appends>,
}

/// The objects that appends of one thread have begun and not filled. One that is being appended to
/// is not among them, so each is in one request at a time, and its blocks come in their order.
#[derive(Debug)]
struct Appends {
    dataset: Dataset,
    block_bytes: u64,
    /// Objects and the number of each one's next block.
    unfilled: VecDeque<(u64, u64)>,
}

impl Appends {
    fn of(trial: &Trial) -> Option<Self> {
        let is_append = trial.mix.iter().any(|share| share.operation == Operation::Append);
        is_append.then(|| Self {
            dataset: Dataset::new(trial),
            block_bytes: trial.options.range_bytes.unwrap_or(u64::MAX).max(1),
            unfilled: VecDeque::new(),
        })
    }

    /// Takes the next block of an object of this thread's, or begins an object.
    fn take(&mut self, objects: u64, shared: &Tickets) -> Option<(u64, u64)> {
        self.unfilled.pop_front().or_else(|| {
            let index = shared.begun.fetch_add(1, Ordering::Relaxed);
            (index < objects).then_some((index, 0))
        })
    }

    /// Keeps an object whose block was appended, unless that filled it.
    fn keep(&mut self, index: u64, block: u64) {
        if (block + 1).saturating_mul(self.block_bytes) < self.dataset.size(index) {
            self.unfilled.push_back((index, block + 1));
        }
    }
}

impl Requests {
    /// Makes the chooser for one of `threads` threads.
    #[must_use]
    pub fn new(trial: &Trial, threads: usize, clients: u32) -> Self {
        let total: f64 = trial.mix.iter().map(|share| share.weight).sum();
        let mut sum = 0.0;
        let shares = trial
            .mix
            .iter()
            .map(|share| {
                sum += share.weight / total;
                (sum, share.operation)
            })
            .collect();
        let Options { bulk_keys, range_bytes, .. } = trial.options;
        let largest = trial.dataset.size.max();
        let blocks = largest.div_ceil(range_bytes.unwrap_or(largest).max(1)).max(1);
        let units = trial.dataset.objects.saturating_mul(blocks);
        // Small enough that no thread sits on work at the end, large enough that many cores do
        // not fight for one cache line.
        let chunk = trial.stop.requests.map_or(16, |requests| {
            (requests / (threads as u64 * u64::from(clients).max(1) * 64)).clamp(1, 16)
        });
        let appends = Appends::of(trial);
        Self {
            shares,
            is_mix: trial.mix.len() > 1,
            objects: trial.dataset.objects,
            buckets: trial.dataset.buckets,
            bulk_keys: u64::from(bulk_keys).max(1),
            trial_seed: trial.chance_seed(),
            seed: mix64(trial.chance_seed()),
            verify: trial.verify,
            chooser: KeyChooser::new(&trial.keys, trial.dataset.objects, trial.seed),
            blocks,
            block_chooser: KeyChooser::new(&trial.keys, units, trial.seed),
            // A thread that holds tickets may find no object to append to.
            chunk: if appends.is_some() { 1 } else { chunk },
            tickets: 0..0,
            written: VecDeque::new(),
            appends,
        }
    }

    /// Forgets tickets drawn for an earlier stage or iteration; each has chances of its own.
    pub fn restart(&mut self, iteration: u32, stage: u64) {
        self.tickets = 0..0;
        self.seed = mix64(self.trial_seed ^ mix64(u64::from(iteration) << 8 | stage));
    }

    /// Tells whether tickets are left that nobody else can take.
    #[inline]
    #[must_use]
    pub fn is_holding_tickets(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Returns the next request, or `None` when the tickets are used up.
    #[inline]
    pub fn next(&mut self, shared: &Tickets) -> Option<Request> {
        if self.appends.is_some() {
            return self.next_append(shared);
        }
        let ticket = match self.tickets.next() {
            Some(ticket) => ticket,
            None => {
                self.tickets = shared.draw(self.chunk);
                self.tickets.next()?
            }
        };
        let chance = mix64(self.seed ^ mix64(ticket));
        let operation = self.operation(chance);
        let is_verified = self.verify >= 1.0 || unit(mix64(chance ^ 1)) < self.verify;
        let request = Request { operation, index: 0, keys: 1, chance: mix64(chance), is_verified };
        Some(self.with_object(request, ticket, shared))
    }

    #[cold]
    fn next_append(&mut self, shared: &Tickets) -> Option<Request> {
        let appends = self.appends.as_mut()?;
        let (index, block) = appends.take(self.objects, shared)?;
        if shared.draw(1).is_empty() {
            appends.unfilled.push_front((index, block));
            return None;
        }
        let operation = Operation::Append;
        Some(Request { operation, index, keys: 1, chance: block, is_verified: false })
    }

    /// Tells whether a client that got no request leaves the rest to others: every object that is
    /// not full is being appended to.
    #[must_use]
    pub fn leaves_rest_to_others(&self, shared: &Tickets) -> bool {
        self.appends.is_some() && !shared.are_used_up()
    }

    /// Remembers a request that went well: an object that a mix has put, so that a later delete of
    /// the mix may take it, and one that more is to be appended to.
    #[inline]
    pub fn remember(&mut self, request: &Request) {
        if let Some(appends) = &mut self.appends {
            appends.keep(request.index, request.chance);
        }
        if self.is_mix
            && request.operation == Operation::Put
            && request.index >= self.objects
            && self.written.len() < WRITTEN_MAX
        {
            self.written.push_back(request.index);
        }
    }

    #[inline]
    fn operation(&self, chance: u64) -> Operation {
        if !self.is_mix {
            return self.shares[0].1;
        }
        let draw = unit(chance);
        self.shares.iter().find(|(upper, _)| draw < *upper).unwrap_or(&self.shares[0]).1
    }

    /// Chooses the object. In a mix, reads see only the dataset, which the mix never deletes, and
    /// deletes take only what the mix has put beyond it: so no request asks for an object that
    /// may be gone already.
    #[inline]
    fn with_object(&mut self, mut request: Request, ticket: u64, shared: &Tickets) -> Request {
        match request.operation {
            Operation::Delete if self.is_mix => match self.written.pop_front() {
                Some(index) => request.index = index,
                None => {
                    // Nothing of the mix's own is there yet: put what a later delete can take.
                    request.operation = Operation::Put;
                    request.index = self.objects + shared.fresh.fetch_add(1, Ordering::Relaxed);
                }
            },
            Operation::Put | Operation::MultipartPut if self.is_mix => {
                request.index = self.objects + shared.fresh.fetch_add(1, Ordering::Relaxed);
            }
            Operation::List | Operation::CreateBucket | Operation::DeleteBucket => {
                request.index = ticket % self.buckets;
            }
            Operation::BulkDelete => {
                let (bucket, batch) = (ticket % self.buckets, ticket / self.buckets);
                request.index = bucket + batch * self.bulk_keys * self.buckets;
                let left = self.objects.saturating_sub(request.index).div_ceil(self.buckets);
                let keys = left.min(self.bulk_keys) as u32;
                request.keys = keys;
            }
            Operation::Read | Operation::Write => {
                let unit = self.block_chooser.choose(ticket, request.chance);
                (request.index, request.chance) = (unit / self.blocks, unit % self.blocks);
            }
            _ => request.index = self.chooser.choose(ticket, request.chance),
        }
        request
    }
}

/// Returns how many bulk requests it takes to delete a whole dataset.
#[must_use]
pub fn bulk_requests(objects: u64, buckets: u64, bulk_keys: u64) -> u64 {
    (0..buckets.min(objects))
        .map(|bucket| (objects - bucket).div_ceil(buckets).div_ceil(bulk_keys.max(1)))
        .max()
        .unwrap_or(0)
        * buckets
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn trial(mix: &str, rest: &str) -> Trial {
        serde_json::from_str(&format!(
            r#"{{"format":1,"id":"0001","run":"{:032x}","seed":7,"phase":"get",
                "target":{{"name":"t","driver":"null"}},
                "dataset":{{"bucket_prefix":"b","buckets":3,"objects":1000,"object_prefix":"o",
                            "size":{{"kind":"fixed","bytes":1}}}},
                "mix":{mix},"stop":{{"requests":100000}},"load":{{"kind":"closed","clients":1}}
                {rest}}}"#,
            1
        ))
        .expect("the test's document is sound")
    }

    fn draw(trial: &Trial, count: u64) -> Vec<Request> {
        let tickets = Tickets::default();
        tickets.restart(count);
        let mut requests = Requests::new(trial, 1, 1);
        std::iter::from_fn(|| {
            let request = requests.next(&tickets)?;
            requests.remember(&request);
            Some(request)
        })
        .collect()
    }

    #[test]
    fn sequential_keys_visit_every_object_once() {
        let drawn = draw(&trial(r#"[{"operation":"get"}]"#, ""), 1000);
        let seen: HashSet<u64> = drawn.iter().map(|request| request.index).collect();
        assert_eq!((drawn.len(), seen.len()), (1000, 1000));
    }

    #[test]
    fn sequential_blocks_go_through_one_object_after_another() {
        let mut trial = trial(r#"[{"operation":"read"}]"#, r#","options":{"range_bytes":4096}"#);
        trial.dataset.size = crate::trial::SizeLaw::Fixed { bytes: 10_000 };
        let drawn = draw(&trial, 7);
        let places: Vec<_> = drawn.iter().map(|request| (request.index, request.chance)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]);
    }

    #[test]
    fn a_mix_never_asks_for_what_it_may_have_deleted() {
        let mix = r#"[{"operation":"get","weight":45},{"operation":"head","weight":30},
                      {"operation":"put","weight":15},{"operation":"delete","weight":10}]"#;
        let drawn = draw(&trial(mix, ""), 100_000);
        let (mut there, mut gone) = (HashSet::new(), HashSet::new());
        for request in &drawn {
            match request.operation {
                Operation::Put => {
                    assert!(there.insert(request.index) && !gone.contains(&request.index))
                }
                Operation::Delete => {
                    assert!(there.remove(&request.index) && gone.insert(request.index))
                }
                _ => assert!(request.index < 1000 && !gone.contains(&request.index)),
            }
        }
        let share = |operation| {
            drawn.iter().filter(|request| request.operation == operation).count() as f64 / 1e5
        };
        assert!((share(Operation::Get) - 0.45).abs() < 0.01);
        assert!((share(Operation::Delete) - 0.10).abs() < 0.01);
    }

    #[test]
    fn bulk_deletes_cover_the_dataset_once() {
        let trial = trial(r#"[{"operation":"bulk_delete"}]"#, r#","options":{"bulk_keys":100}"#);
        let mut seen = HashSet::new();
        for request in draw(&trial, bulk_requests(1000, 3, 100)) {
            for key in 0..u64::from(request.keys) {
                assert!(seen.insert(request.index + key * 3));
            }
        }
        assert_eq!(seen.len(), 1000);
        assert!(seen.iter().all(|index| *index < 1000));
    }

    #[test]
    fn appends_fill_each_object_in_order_and_one_request_at_a_time() {
        let mut trial = trial(r#"[{"operation":"append"}]"#, r#","options":{"range_bytes":4096}"#);
        trial.dataset.objects = 7;
        trial.dataset.size = crate::trial::SizeLaw::Weighted {
            choices: vec![(0, 1.0), (4096, 1.0), (4097, 1.0), (20_000, 1.0)],
        };
        let dataset = Dataset::new(&trial);
        let tickets = Tickets::default();
        tickets.restart(u64::MAX);
        let mut threads = [Requests::new(&trial, 2, 6), Requests::new(&trial, 2, 6)];
        let (mut blocks, mut in_flight) = ([0; 7], Vec::new());
        loop {
            // Three clients in each thread; the oldest request of all ends first.
            for (thread, requests) in threads.iter_mut().enumerate() {
                let is_of = |(other, _): &&(usize, Request)| *other == thread;
                while in_flight.iter().filter(is_of).count() < 3
                    && let Some(request) = requests.next(&tickets)
                {
                    assert!(in_flight.iter().all(|(_, other)| other.index != request.index));
                    in_flight.push((thread, request));
                }
            }
            if in_flight.is_empty() {
                break;
            }
            let (thread, request) = in_flight.remove(0);
            let place = request.index as usize;
            assert_eq!(blocks[place], request.chance);
            blocks[place] += 1;
            threads[thread].remember(&request);
        }
        let expected = [0, 1, 2, 3, 4, 5, 6].map(|index| dataset.size(index).div_ceil(4096).max(1));
        assert_eq!(blocks, expected);
        assert!(threads[0].leaves_rest_to_others(&tickets));
    }

    #[test]
    fn an_object_whose_append_failed_is_given_up() {
        let mut trial = trial(r#"[{"operation":"append"}]"#, r#","options":{"range_bytes":4096}"#);
        trial.dataset.objects = 2;
        trial.dataset.size = crate::trial::SizeLaw::Fixed { bytes: 8192 };
        let tickets = Tickets::default();
        tickets.restart(3);
        let mut requests = Requests::new(&trial, 1, 1);
        let mut next = || requests.next(&tickets).map(|request| (request.index, request.chance));
        // Nobody says that the first went well.
        assert_eq!([next(), next(), next()], [Some((0, 0)), Some((1, 0)), None]);
        assert!(requests.leaves_rest_to_others(&tickets));
        requests.remember(&Request {
            operation: Operation::Append,
            index: 1,
            keys: 1,
            chance: 0,
            is_verified: false,
        });
        assert_eq!(requests.next(&tickets).map(|request| request.chance), Some(1));
        assert!(requests.next(&tickets).is_none());
        assert!(!requests.leaves_rest_to_others(&tickets));
    }

    #[test]
    fn the_same_seed_asks_for_the_same_objects() {
        let trial = trial(r#"[{"operation":"get"}]"#, r#","keys":{"order":"uniform"}"#);
        let indices = |drawn: Vec<Request>| drawn.iter().map(|r| r.index).collect::<Vec<_>>();
        assert_eq!(indices(draw(&trial, 500)), indices(draw(&trial, 500)));
    }
}
