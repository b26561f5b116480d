//! A client of a pool: executes one request at a time, from its creation to its result.

use std::ffi::{c_char, c_int};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::call::{Call, OwnerTag, RUN};
use super::connection::PoolContext;
use super::library::{AioCompletion, Context, Library, kernel_text};
use super::slot::{GivenUp, Slot};
use super::{Content, Draft, Rados, RadosThread};
use crate::driver::Client;
use crate::error::Error;
use crate::object_list::Lister;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{self, BucketState, Standing, Swept};
use crate::payload::{Held, ObjectId, Verifier};
use crate::reactor::Reactor;
use crate::requests::{Request, Subject};
use crate::transport::{huge, inbox::Seat};

/// How long a client waits at its end for librados to finish its requests.
const FAREWELL: Duration = Duration::from_millis(500);

/// Up to this size over all clients, buffers of reads are allocated before the load, so that no
/// request pays for them. Beyond it, they might need more memory than the requests do, if sizes
/// differ.
const READY_BYTES_MAX: usize = 1 << 30;

/// A client of [`Rados`].
pub(crate) struct RadosClient {
    pub(super) rados: Arc<Rados>,
    pub(super) reactor: Rc<Reactor>,
    pub(super) seat: Seat,
    pub(super) instance: usize,
    pub(super) library: &'static Library,
    content: Content,
    /// Namespaces opened by name, in addition to those of the dataset.
    pub(super) contexts: Vec<(String, Arc<PoolContext>)>,
    /// Foreign namespaces in which the run's objects name the run.
    pub(super) bound: Vec<String>,
    /// The run that an object must name to be changed.
    pub(super) guard: String,
    slot: Arc<Slot>,
    in_flight: Option<(Context, AioCompletion, Call)>,
    given_up: Vec<GivenUp>,
    /// Name of the object, terminated by a zero byte.
    name: Vec<u8>,
    /// Version that the last checked read returned, for histories.
    version: u64,
    pub(super) last_error: Option<String>,
}

impl std::fmt::Debug for RadosClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RadosClient").finish_non_exhaustive()
    }
}

impl Drop for RadosClient {
    /// Cancels the requests in flight and lets librados call back before the pool's contexts are
    /// destroyed, because librados does not keep them for a request. What librados does not finish
    /// in time is leaked.
    fn drop(&mut self) {
        self.give_up();
        let deadline = Instant::now() + FAREWELL;
        while !self.given_up.iter().all(GivenUp::has_ended) {
            // Only one client waits: a thousand clients must not wait one after another.
            if Instant::now() > deadline || self.rados.is_abandoned.load(Ordering::Relaxed) {
                self.rados.is_abandoned.store(true, Ordering::Relaxed);
                std::mem::forget(std::mem::take(&mut self.contexts));
                std::mem::forget(Arc::clone(&self.rados));
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Client for RadosClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        // An error that was never read must not describe a later failure.
        self.last_error = None;
        if let Subject::Listing(listing) = request.subject {
            return self.list_prefix(listing).await;
        }
        if request.operation == Operation::List {
            return self.list_page(request.bucket()).await;
        }
        let object = self.rados.dataset.id(request.object());
        let call = self.call(request, &object);
        let index = request.object().index;
        let bucket = self.rados.dataset.bucket_of(index);
        let context = match self.rados.instances[self.instance].context(&self.rados, bucket) {
            Ok(context) => context,
            Err(number) => return self.refused(number),
        };
        self.name.clear();
        self.rados.dataset.write_key(index, &mut self.name);
        self.name.push(0);
        let theirs = self.rados.foreign.as_ref().is_some_and(|foreign| foreign.is_theirs(bucket));
        let is_exclusive = request.operation == Operation::PutIfAbsent;
        let (sent_ns, result, ended_ns) = if is_exclusive {
            self.fill(call, &object);
            let tag = if theirs { OwnerTag::First } else { OwnerTag::Absent };
            let sent_ns = self.reactor.now_ns();
            let (result, ended_ns) = self.perform(context, call, tag).await;
            (sent_ns, result, ended_ns)
        } else if theirs && call.is_change() {
            // An object that was put before probably exists.
            let is_new = request.object().version <= 1 && matches!(call, Call::WriteFull { .. });
            let first = if is_new { OwnerTag::First } else { OwnerTag::Ours };
            self.change_beside(context, call, first, Some(&object)).await
        } else {
            self.fill(call, &object);
            let sent_ns = self.reactor.now_ns();
            let (result, ended_ns) = self.perform(context, call, OwnerTag::None).await;
            (sent_ns, result, ended_ns)
        };
        let mut completion = Completion::plain(Outcome::OK, sent_ns, 0, ended_ns);
        if is_exclusive && result == -libc::EEXIST {
            completion.outcome = Outcome::LOST_RACE;
        } else if theirs && result == -libc::ECANCELED {
            completion.outcome = if call.is_write() { Outcome::EXISTS } else { Outcome::DENIED };
            let text = || "the object is there, and this run did not write it".to_owned();
            self.last_error.get_or_insert_with(text);
        } else if result < 0 {
            completion.outcome = Outcome::of_io(&std::io::Error::from_raw_os_error(-result));
            self.note_failure(call, -result);
        } else {
            self.judge(&mut completion, call, result, request.is_verified, &object);
        }
        completion
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        ownership::look(self, bucket).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        ownership::ready(self, bucket).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        ownership::sweep(self, bucket).await
    }

    async fn list_objects(
        &mut self,
        place: &str,
        prefix: &str,
        lister: &mut Lister,
    ) -> Result<(), Error> {
        self.list_with_sizes(place, prefix, lister).await
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn last_error(&mut self) -> Option<String> {
        self.last_error.take()
    }
}

impl RadosClient {
    pub(super) fn new(rados: &Arc<Rados>, thread: &RadosThread, index: u32) -> Self {
        let seat = thread.inbox.take_seat();
        let instance = index as usize % rados.instances.len();
        let library = rados.instances[instance].connection.library;
        let slot = Slot::new(seat.clone(), library);
        if rados.clients as usize * rados.bytes_read <= READY_BYTES_MAX {
            // SAFETY: the slot is new.
            unsafe { slot.buffer(rados.bytes_read) };
        }
        Self {
            rados: Arc::clone(rados),
            reactor: Rc::clone(&thread.reactor),
            slot,
            seat,
            instance,
            library,
            content: Rc::clone(&thread.content),
            contexts: Vec::new(),
            bound: Vec::new(),
            guard: String::new(),
            in_flight: None,
            given_up: Vec::new(),
            name: Vec::new(),
            version: 0,
            last_error: None,
        }
    }

    fn call(&self, request: &Request, object: &ObjectId) -> Call {
        let size = |bytes: u64| usize::try_from(bytes).expect("checked against the limit");
        // Blocks are adjacent, so that writes of different blocks never overlap; the last may be
        // shorter.
        let block = self.rados.range_bytes.unwrap_or(object.length).clamp(1, object.length.max(1));
        let offset = request.block() % object.length.div_ceil(block).max(1) * block;
        let length = size(block.min(object.length - offset));
        match request.operation {
            Operation::Put | Operation::PutIfAbsent => {
                Call::WriteFull { length: size(object.length) }
            }
            Operation::Write => Call::WriteAt { offset, length },
            Operation::Append => Call::Append { offset, length },
            Operation::Get => Call::Read { offset: 0, length: size(object.length) },
            Operation::RangeGet | Operation::Read => Call::Read { offset, length },
            Operation::Delete => Call::Remove,
            _ => Call::Stat,
        }
    }

    /// Generates the content of a write of the load.
    #[inline]
    pub(super) fn fill(&self, call: Call, object: &ObjectId) {
        if !call.is_write() {
            return;
        }
        let Draft { bytes, held } = &mut *self.content.borrow_mut();
        if bytes.len() < call.length() {
            *bytes = huge::zeroed(call.length());
            held.forget();
        }
        let payload = &mut bytes[..call.length()];
        held.fill(&self.rados.payload, object, call.offset(), payload);
    }

    /// Selects an object with a given name.
    pub(super) fn at(&mut self, name: &str) {
        self.name.clear();
        self.name.extend_from_slice(name.as_bytes());
        self.name.push(0);
    }

    /// Executes one call on an object with a given name and waits for its end, with the given
    /// content for a write.
    pub(super) async fn ask(
        &mut self,
        context: Context,
        name: &str,
        (call, tag): (Call, OwnerTag),
        content: &[u8],
    ) -> Result<(), c_int> {
        self.at(name);
        *self.content.borrow_mut() = Draft { bytes: content.to_vec(), held: Held::default() };
        let (result, _) = self.perform(context, call, tag).await;
        if result < 0 { Err(-result) } else { Ok(()) }
    }

    /// Reads the beginning of an object with a given name, as text.
    pub(super) async fn read_text(
        &mut self,
        context: Context,
        name: &str,
        bytes_max: usize,
    ) -> Result<String, c_int> {
        self.at(name);
        let call = Call::Read { offset: 0, length: bytes_max };
        let (result, _) = self.perform(context, call, OwnerTag::None).await;
        let Ok(length) = usize::try_from(result) else { return Err(-result) };
        Ok(self.text_read(length))
    }

    /// Returns the size from the request that has just ended.
    pub(super) fn size_found(&self) -> u64 {
        // SAFETY: the request has ended.
        unsafe { (*self.slot.stat.get()).0 }
    }

    /// Returns the text that the request that has just ended has read.
    pub(super) fn text_read(&self, length: usize) -> String {
        // SAFETY: the request has ended.
        let bytes = unsafe { self.slot.buffer(length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Executes one call on the object that `name` holds; returns librados's result, and when it
    /// arrived. Gives up at the deadline. Submits before it waits, so that no other client uses the
    /// shared buffer between the generation of content and its submission.
    pub(super) async fn perform(
        &mut self,
        context: Context,
        call: Call,
        tag: OwnerTag,
    ) -> (c_int, u64) {
        if let Err(number) = self.submit(context, call, tag) {
            return (-number, self.reactor.now_ns());
        }
        let (slot, reactor) = (&self.slot, &self.reactor);
        let end = std::future::poll_fn(|_| match slot.result() {
            Some(end) => std::task::Poll::Ready(Some(end)),
            None if reactor.expired() => std::task::Poll::Ready(None),
            None => std::task::Poll::Pending,
        })
        .await;
        match end {
            Some(end) => {
                if let Some((_, aio, _)) = self.in_flight.take() {
                    // SAFETY: we own it, it was submitted and has ended; it is released here only.
                    unsafe { (self.library.rados_aio_release)(aio) };
                }
                end
            }
            None => {
                self.give_up();
                (-libc::ETIMEDOUT, self.reactor.now_ns())
            }
        }
    }

    fn submit(&mut self, io: Context, call: Call, tag: OwnerTag) -> Result<(), c_int> {
        // SAFETY: no request is in flight on the slot until `arm`.
        let buffer = unsafe { self.slot.buffer(call.bytes_read()) }.as_mut_ptr();
        let content = self.content.borrow();
        let given = content.bytes.as_ptr().cast::<c_char>();
        assert!(!call.is_write() || content.bytes.len() >= call.length(), "made for this call");
        self.seat.expect(self.reactor.current_task());
        let aio = self.slot.arm()?;
        let (library, name) = (self.library, self.name.as_ptr().cast::<c_char>());
        // SAFETY: librados copies the name and the content before it returns; buffer and stat live
        // in the slot, which the callback keeps alive, and nothing else touches them until it has
        // run.
        let result = unsafe {
            match call {
                _ if tag != OwnerTag::None => self.submit_bound(io, aio, (name, given), call, tag),
                Call::WriteFull { length } => {
                    (library.rados_aio_write_full)(io, name, aio, given, length)
                }
                Call::WriteAt { offset, length } => {
                    (library.rados_aio_write)(io, name, aio, given, length, offset)
                }
                Call::Append { length, .. } => {
                    (library.rados_aio_append)(io, name, aio, given, length)
                }
                Call::Read { offset, length } => {
                    (library.rados_aio_read)(io, name, aio, buffer.cast(), length, offset)
                }
                Call::Stat => {
                    let stat = self.slot.stat.get();
                    let (size, time) = (&raw mut (*stat).0, &raw mut (*stat).1);
                    (library.rados_aio_stat)(io, name, aio, size, time)
                }
                Call::Attribute { length } => {
                    let run = RUN.as_ptr();
                    (library.rados_aio_getxattr)(io, name, aio, run, buffer.cast(), length)
                }
                Call::Remove => (library.rados_aio_remove)(io, name, aio),
            }
        };
        if result < 0 {
            drop(content);
            self.slot.refuse(aio);
            return Err(-result);
        }
        drop(content);
        self.in_flight = Some((io, aio, call));
        Ok(())
    }

    /// Cancels the request in flight. From now on, its slot belongs to the callback, which may come
    /// late; the next request gets a new one. A write may have reached the cluster nevertheless.
    fn give_up(&mut self) {
        self.given_up.retain(|old| !old.is_over());
        let Some((context, aio, call)) = self.in_flight.take() else { return };
        // SAFETY: the context is open, and the completion was submitted and is not released yet. An
        // error means that the request has just ended.
        unsafe { (self.library.rados_aio_cancel)(context, aio) };
        let fresh = Slot::new(self.seat.clone(), self.library);
        let old = std::mem::replace(&mut self.slot, fresh);
        let is_read = matches!(call, Call::Read { .. } | Call::Attribute { .. });
        self.given_up.push(GivenUp::new(old, aio, is_read));
    }

    #[expect(clippy::cast_sign_loss, reason = "the caller saw that it is no error")]
    fn judge(
        &mut self,
        completion: &mut Completion,
        call: Call,
        result: c_int,
        is_verified: bool,
        object: &ObjectId,
    ) {
        match call {
            Call::WriteFull { length }
            | Call::WriteAt { length, .. }
            | Call::Append { length, .. } => {
                completion.bytes = length as u64;
            }
            Call::Read { offset, length } => {
                completion.bytes = result as u64;
                if self.rados.dataset.is_listed() {
                    // For objects that others wrote, only the length is known.
                    if (result as usize) < length {
                        completion.outcome = Outcome::CHANGED;
                    }
                } else if is_verified {
                    let range = offset..offset + length as u64;
                    let mut verifier = Verifier::for_range(&self.rados.payload, object, range);
                    // SAFETY: the request has ended.
                    verifier.update(unsafe { self.slot.buffer(result as usize) });
                    completion.outcome = Outcome::of_verdict(verifier.finish());
                    completion.verified_bytes = verifier.checked_bytes();
                    self.version = verifier.version().unwrap_or_default();
                    if !completion.outcome.is_ok() {
                        self.last_error = verifier.evidence().map(|evidence| evidence.to_string());
                    }
                } else if (result as usize) < length {
                    completion.outcome = Outcome::TRUNCATED;
                }
            }
            Call::Stat | Call::Attribute { .. } | Call::Remove => {}
        }
    }

    /// Returns the completion of a request that could not be submitted.
    fn refused(&mut self, number: c_int) -> Completion {
        let now_ns = self.reactor.now_ns();
        self.last_error.get_or_insert_with(|| kernel_text(number));
        let outcome = Outcome::of_io(&std::io::Error::from_raw_os_error(number));
        Completion::plain(outcome, now_ns, 0, now_ns)
    }

    /// Describes a failure for the record: the request, the result, and a possible reason.
    fn note_failure(&mut self, call: Call, number: c_int) {
        if self.last_error.is_some() {
            return;
        }
        let action = match call {
            Call::WriteFull { .. } => "write",
            Call::WriteAt { .. } => "write a block of",
            Call::Append { .. } => "append to",
            Call::Read { .. } => "read",
            Call::Stat | Call::Attribute { .. } => "look at",
            Call::Remove => "remove",
        };
        let name = String::from_utf8_lossy(self.name.strip_suffix(&[0]).unwrap_or(&self.name));
        let pool = &self.rados.access.pool;
        let hint = match number {
            libc::ETIMEDOUT => "; see the placement groups in: ceph health detail",
            libc::ENOENT if call.is_write() => "; is the pool still there?",
            libc::ENOSPC | libc::EDQUOT => "; the pool or the cluster is full: ceph df detail",
            libc::ESHUTDOWN => "; the cluster has blocklisted this client",
            libc::EFBIG | libc::EMSGSIZE => "; see osd_max_object_size and osd_max_write_size",
            libc::EOPNOTSUPP if !matches!(call, Call::Append { .. }) => {
                "; an erasure-coded pool needs allow_ec_overwrites for this"
            }
            _ => "",
        };
        let text = kernel_text(number);
        self.last_error = Some(format!("{action} \"{name}\" in pool \"{pool}\": {text}{hint}"));
    }
}
