//! Driver `block`: blocks at offsets of one large file or a block device.
//!
//! Objects lie side by side from 1 MiB on; the first and the last MiB are the mark that names the
//! owner of the file or device. If the kernel supports io_uring, all clients of a load thread share
//! a ring, and their number is the queue depth; otherwise each client blocks its own thread.

use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Clock;
use crate::dataset::Dataset;
use crate::driver::{Client, Driver, Thread};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{BucketState, Swept};
use crate::payload::{Held, ObjectId, PAGE_BYTES, PayloadSpec, SECTOR_BYTES, check_blocks};
use crate::reactor::{Reactor, Sleep};
use crate::requests::Request;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::{
    disk::{self, BLOCK_BYTES_MAX, Buffer, FLUSH_SETTINGS, Flush, Turns},
    limits,
    page_cache::{self, Cached},
    ring::{Action, Ring, RingPark, SlotIndex},
};
use crate::trial::Trial;

mod engine;
mod facts;
mod mark;
mod names;
mod place;
mod refusal;
mod uses;

use place::{DATA_START, Place};

/// A file or device, and how it is accessed.
#[derive(Debug)]
pub(super) struct Block {
    place: Place,
    dataset: Dataset,
    payload: PayloadSpec,
    flush: Flush,
    block_bytes: u64,
    /// Buffer size of a client; zero if no data is transferred.
    buffer_bytes: usize,
    /// Distance from one object to the next.
    stride_bytes: u64,
    is_blocking: bool,
    /// Whether a read may see half of a concurrent write to its block: the page cache does not
    /// serialise them.
    may_tear: bool,
    refusal: Option<String>,
}

#[derive(Debug)]
pub(super) struct BlockClient {
    block: Arc<Block>,
    reactor: Rc<Reactor>,
    medium: Medium,
    held: Held,
    writes: u64,
    last_error: Option<String>,
}

#[derive(Debug)]
enum Medium {
    Ring { ring: Rc<Ring>, slot: SlotIndex },
    Thread { buffer: Buffer, turns: Turns },
}

/// State that the clients of one load thread share. Without a ring, each client blocks a thread.
#[derive(Debug)]
pub(super) struct BlockThread {
    reactor: Rc<Reactor>,
    ring: Option<Rc<Ring>>,
}

impl Thread for BlockThread {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

const ENGINES: &[&str] = &["auto", "io_uring", "psync"];
/// How many times a block that may have been overwritten during the read is read again.
const LOOKS_AGAIN: usize = 8;

impl Driver for Block {
    const NAME: &'static str = "block";
    const SUMMARY: &'static str = "blocks at offsets of one large file or a block device";
    const OPERATIONS: &'static [Operation] =
        &[Operation::Read, Operation::Write, Operation::Delete];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            required: true,
            ..setting("path", SettingKind::Text, "the file, which is made if need be, or device")
        },
        Setting {
            default: Some("true"),
            ..setting("direct", SettingKind::Flag, "pass by the page cache (O_DIRECT)")
        },
        Setting {
            default: Some("auto"),
            ..setting("engine", SettingKind::Choice(ENGINES), "how the kernel is asked")
        },
        FLUSH_SETTINGS[0],
        FLUSH_SETTINGS[1],
        FLUSH_SETTINGS[2],
        FLUSH_SETTINGS[3],
    ];
    const FACTS: Facts = facts::FACTS;
    type Thread = BlockThread;
    type Client = BlockClient;

    fn check(trial: &Trial) -> Vec<String> {
        let mut mistakes = settings::mistakes(Self::SETTINGS, &trial.target.settings);
        mistakes.extend(Flush::mistakes(&trial.target.settings));
        mistakes.extend(block_mistakes(trial));
        mistakes
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        limits::raise_descriptors();
        let settings = &trial.target.settings;
        let largest = trial.dataset.size.max();
        let stride_bytes = largest.max(1).next_multiple_of(PAGE_BYTES as u64);
        let data_bytes = stride_bytes.saturating_mul(trial.dataset.objects);
        let flush = Flush::of_settings(settings);
        let place = Place::open(trial, data_bytes, flush.open_flags())?;
        let (is_blocking, refusal) = engine::choose(trial, &place)?;
        let block_bytes = trial.options.range_bytes.unwrap_or(largest).clamp(1, stride_bytes);
        place.check_alignment(block_bytes, largest, stride_bytes)?;
        let io_bytes = block_bytes.next_multiple_of(place.alignment() as u64);
        let buffer_bytes = if moves_data(trial) { io_bytes } else { 0 };
        Ok(Self {
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            flush,
            block_bytes,
            buffer_bytes: usize::try_from(buffer_bytes).expect("checked against the limit"),
            stride_bytes,
            is_blocking,
            may_tear: !place.is_direct() && writes(trial),
            refusal,
            place,
        })
    }

    fn is_blocking(&self) -> bool {
        self.is_blocking
    }

    fn volume(&self) -> Option<&str> {
        self.place.volume()
    }

    fn look_at_page_cache(&self) -> Option<Cached> {
        let file = self.place.file().filter(|_| !self.place.is_direct())?.as_fd();
        page_cache::look(self.dataset.spec().objects, |index| {
            Some((file, DATA_START + index * self.stride_bytes, self.stride_bytes))
        })
    }

    fn thread(self: &Arc<Self>) -> Result<BlockThread, Error> {
        let Some(file) = self.place.file().filter(|_| !self.is_blocking) else {
            let park = Box::new(Sleep);
            return Ok(BlockThread { reactor: Reactor::new(park, Clock::real()), ring: None });
        };
        let refused = |source| Error::Host { what: "make an io_uring", source };
        let ring = Ring::new(file.as_raw_fd()).map_err(refused)?;
        let park = Box::new(RingPark(Rc::clone(&ring)));
        Ok(BlockThread { reactor: Reactor::new(park, Clock::real()), ring: Some(ring) })
    }

    fn client(self: &Arc<Self>, thread: &BlockThread, _: u32) -> Result<BlockClient, Error> {
        let bytes = self.buffer_bytes;
        let medium = match &thread.ring {
            Some(ring) => Medium::Ring { slot: ring.take_slot(bytes), ring: Rc::clone(ring) },
            None => Medium::Thread { buffer: Buffer::new(bytes), turns: Turns::default() },
        };
        Ok(BlockClient {
            block: Arc::clone(self),
            reactor: Rc::clone(&thread.reactor),
            medium,
            held: Held::default(),
            writes: 0,
            last_error: None,
        })
    }

    fn features(&self) -> Vec<(String, String)> {
        let engine = if self.is_blocking { "psync" } else { "io_uring" };
        let mut features = vec![("engine".to_owned(), engine.to_owned())];
        if self.place.only_discards() {
            features.push(("delete".to_owned(), "BLKDISCARD".to_owned()));
        }
        features.extend(self.refusal.iter().map(|why| ("io_uring".to_owned(), why.clone())));
        features.extend(uses::refusal().map(|why| ("libblkid".to_owned(), why.to_owned())));
        features
    }
}

/// Returns whether requests transfer blocks. A delete applies to a whole object, however large.
fn moves_data(trial: &Trial) -> bool {
    trial.mix.iter().any(|share| share.operation != Operation::Delete)
}

fn writes(trial: &Trial) -> bool {
    trial.mix.iter().any(|share| share.operation == Operation::Write)
}

fn block_mistakes(trial: &Trial) -> Vec<String> {
    let mut mistakes = Vec::new();
    if !moves_data(trial) {
        return mistakes;
    }
    let largest = trial.dataset.size.max();
    let block_bytes = trial.options.range_bytes.unwrap_or(largest);
    if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
        mistakes.push(format!(
            "options.range_bytes: found {block_bytes}, allowed: 1 to {BLOCK_BYTES_MAX} (the block \
             that one request reads or writes)"
        ));
    } else if block_bytes < largest && !block_bytes.is_multiple_of(SECTOR_BYTES) {
        mistakes.push(format!(
            "options.range_bytes: found {block_bytes}, allowed: multiples of {SECTOR_BYTES}"
        ));
    }
    mistakes
}

/// The position of one request.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    object: ObjectId,
    /// Offset in the object.
    offset: u64,
    bytes: usize,
    /// Offset in the file.
    at: u64,
}

impl Stretch {
    /// Returns the space of the object: devices release whole sectors only.
    fn whole_bytes(&self) -> u64 {
        self.object.length.next_multiple_of(PAGE_BYTES as u64)
    }
}

impl Block {
    #[inline]
    fn stretch(&self, request: &Request) -> Stretch {
        let index = request.object().index;
        let object = self.dataset.id(request.object());
        let length = object.length;
        // The number was chosen for the largest object; smaller ones have fewer blocks. A delete
        // applies to whole objects.
        let is_whole = request.operation == Operation::Delete;
        let blocks = if is_whole { 1 } else { length.div_ceil(self.block_bytes).max(1) };
        let number = if is_whole { 0 } else { request.block() };
        let block = if number < blocks { number } else { number % blocks };
        let offset = block * self.block_bytes;
        let bytes = usize::try_from((length - offset).min(self.block_bytes)).expect("a block");
        Stretch { object, offset, bytes, at: DATA_START + index * self.stride_bytes + offset }
    }
}

impl Client for BlockClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let stretch = self.block.stretch(request);
        let io_bytes = stretch.bytes.next_multiple_of(self.block.place.alignment());
        let mut sent_ns = self.reactor.latest_ns();
        if request.operation == Operation::Write {
            let block = Arc::clone(&self.block);
            let mut held = std::mem::take(&mut self.held);
            self.with_buffer(|buffer| {
                let (payload, padding) = buffer[..io_bytes].split_at_mut(stretch.bytes);
                held.fill(&block.payload, &stretch.object, stretch.offset, payload);
                if !padding.is_empty() {
                    padding.fill(0);
                    held.forget();
                }
            });
            self.held = held;
            sent_ns = self.reactor.now_ns();
        } else {
            self.held.forget();
        }
        let result = self.transfer(request.operation, &stretch, io_bytes).await;
        let ended_ns = result.as_ref().map_or_else(|_| self.reactor.now_ns(), |done| done.1);
        let mut completion = Completion::plain(Outcome::OK, sent_ns, 0, ended_ns);
        match result {
            Ok((done, _)) => {
                self.judge(&mut completion, request, &stretch, done.min(stretch.bytes));
                if self.block.may_tear && completion.verified_bytes > 0 {
                    self.look_again(&mut completion, request, &stretch, io_bytes).await;
                }
            }
            Err(error) => {
                completion.outcome = Outcome::of_io(&error);
                self.last_error = Some(self.describe(request, &stretch, &error.to_string()));
            }
        }
        if let Medium::Thread { turns, .. } = &mut self.medium {
            turns.after(ended_ns, &self.reactor).await;
        }
        completion
    }

    async fn ready_bucket(&mut self, _: &str, _: bool) -> Result<BucketState, Error> {
        // One file or device contains all buckets; it was inspected and created when it was opened.
        Ok(self.block.place.state())
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        self.block.place.sweep(bucket)
    }

    fn last_error(&mut self) -> Option<String> {
        self.last_error.take()
    }
}

impl BlockClient {
    #[inline]
    fn with_buffer<T>(&mut self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        match &mut self.medium {
            Medium::Ring { ring, slot } => ring.with_buffer(*slot, work),
            Medium::Thread { buffer, .. } => work(buffer),
        }
    }

    /// Transfers the block, and flushes if that is due; returns the number of bytes and the time of
    /// completion.
    async fn transfer(
        &mut self,
        operation: Operation,
        stretch: &Stretch,
        io_bytes: usize,
    ) -> std::io::Result<(usize, u64)> {
        let is_write = operation == Operation::Write;
        self.writes += u64::from(is_write);
        let is_flushed = is_write && self.block.flush.is_due(self.writes);
        if let Medium::Thread { buffer, .. } = &mut self.medium {
            // Only a clean-up may find that nothing exists any more.
            let Some(file) = self.block.place.file() else {
                return Err(std::io::ErrorKind::NotFound.into());
            };
            let file = file.as_fd();
            let done = match operation {
                Operation::Read => disk::read_full_at(file, &mut buffer[..io_bytes], stretch.at)?,
                Operation::Write => {
                    disk::write_at(file, &buffer[..io_bytes], stretch.at)?;
                    io_bytes
                }
                _ => {
                    let give_back =
                        if self.block.place.only_discards() { disk::discard } else { disk::punch };
                    give_back(file, stretch.at, stretch.whole_bytes())?;
                    0
                }
            };
            if is_flushed {
                disk::flush(file, self.block.flush.is_data_only)?;
            }
            return Ok((done, self.reactor.now_ns()));
        }
        let bytes = || u32::try_from(io_bytes).expect("below the largest block");
        let action = match operation {
            Operation::Read => Action::Read { offset: stretch.at, bytes: bytes() },
            Operation::Write => Action::Write { offset: stretch.at, bytes: bytes() },
            _ => Action::Discard { offset: stretch.at, bytes: stretch.whole_bytes() },
        };
        let (done, ended_ns) = self.run(action).await?;
        if is_write && done < io_bytes {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        if is_flushed {
            let is_data_only = self.block.flush.is_data_only;
            let (_, flushed_ns) = self.run(Action::Flush { is_data_only }).await?;
            return Ok((done, flushed_ns));
        }
        Ok((done, ended_ns))
    }

    async fn run(&mut self, action: Action) -> std::io::Result<(usize, u64)> {
        let Medium::Ring { ring, slot } = &mut self.medium else {
            unreachable!("the caller has a ring");
        };
        match ring.run(&self.reactor, *slot, action).await {
            Ok((result, ended_ns)) => usize::try_from(result)
                .map(|done| (done, ended_ns))
                .map_err(|_| std::io::Error::from_raw_os_error(-result)),
            Err(error) => {
                // The kernel may still use the buffer, so the slot gets a new one.
                *slot = ring.take_slot(self.block.buffer_bytes);
                self.held.forget();
                Err(error)
            }
        }
    }

    fn judge(
        &mut self,
        completion: &mut Completion,
        request: &Request,
        stretch: &Stretch,
        done: usize,
    ) {
        completion.bytes = done as u64;
        if request.operation != Operation::Read {
            return;
        }
        if done < stretch.bytes {
            completion.outcome = Outcome::TRUNCATED;
            let text = format!("{done} of {} bytes came", stretch.bytes);
            self.last_error = Some(self.describe(request, stretch, &text));
            return;
        }
        if !request.is_verified {
            return;
        }
        completion.verified_bytes = done as u64;
        let block = Arc::clone(&self.block);
        let checked = self.with_buffer(|buffer| {
            check_blocks(&block.payload, &stretch.object, stretch.offset, &buffer[..done])
        });
        if let Err(evidence) = checked {
            completion.outcome = Outcome::of_verdict(evidence.verdict());
            self.last_error = Some(self.describe(request, stretch, &evidence.to_string()));
        }
    }

    /// Reads an inconsistent block again, outside of the measured time. If the first read
    /// overlapped a write, the second one is consistent; if the page cache is wrong, it stays
    /// wrong.
    async fn look_again(
        &mut self,
        completion: &mut Completion,
        request: &Request,
        stretch: &Stretch,
        io_bytes: usize,
    ) {
        for _ in 0..LOOKS_AGAIN {
            if completion.outcome.is_ok() {
                return;
            }
            let Ok((done, _)) = self.transfer(request.operation, stretch, io_bytes).await else {
                return;
            };
            completion.outcome = Outcome::OK;
            self.last_error = None;
            self.judge(completion, request, stretch, done.min(stretch.bytes));
        }
    }

    #[cold]
    fn describe(&self, request: &Request, stretch: &Stretch, problem: &str) -> String {
        let (name, path) = (request.operation.name(), self.block.place.path());
        format!("{name} {} bytes at {} of \"{path}\": {problem}", stretch.bytes, stretch.at)
    }
}

impl Drop for BlockClient {
    fn drop(&mut self) {
        if let Medium::Ring { ring, slot } = &self.medium {
            ring.leave_slot(*slot);
        }
    }
}
