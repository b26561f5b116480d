//! Writes in a foreign namespace: nothing that others have written is overwritten or deleted.
//!
//! Everything that the run writes there carries its name in an attribute. Each change is one operation of the
//! cluster, which also requires that the object is unclaimed or ours. So there is no time between
//! check and change, and the check needs no separate request.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::call::{Call, OwnerTag, RUN};
use super::client::RadosClient;
use super::library::{AioCompletion, Context};
use crate::dataset::Dataset;
use crate::payload::ObjectId;

/// Maximum length of the run that an object names.
const RUN_BYTES_MAX: usize = 256;
/// How often a change is tried: an object of ours may appear or disappear meanwhile, or belong to a
/// named run.
const TRIES: u32 = 8;
/// `LIBRADOS_CREATE_EXCLUSIVE`
const EXCLUSIVE: c_int = 1;
/// `LIBRADOS_CMPXATTR_OP_EQ`
const EQUAL: u8 = 1;

/// For each of the dataset's namespaces, whether it is foreign.
#[derive(Debug)]
pub(super) struct ForeignPlaces(Box<[AtomicBool]>);

impl ForeignPlaces {
    pub(super) fn new(dataset: &Dataset) -> Self {
        Self((0..dataset.spec().buckets).map(|_| AtomicBool::new(false)).collect())
    }

    pub(super) fn is_theirs(&self, bucket: u64) -> bool {
        let at = usize::try_from(bucket).unwrap_or(usize::MAX);
        self.0.get(at).is_some_and(|is_theirs| is_theirs.load(Ordering::Relaxed))
    }

    /// Records that a namespace is foreign.
    pub(super) fn note(&self, dataset: &Dataset, place: &str) {
        for (number, is_theirs) in self.0.iter().enumerate() {
            if dataset.bucket(number as u64) == place {
                is_theirs.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl RadosClient {
    /// Changes the object that `name` holds if it is unclaimed or ours. The content of a write is
    /// generated again for each try. Returns when the last try was sent, its result, and when it
    /// ended; the result for another's object is `ECANCELED`.
    pub(super) async fn change_beside(
        &mut self,
        context: Context,
        call: Call,
        first: OwnerTag,
        object: Option<&ObjectId>,
    ) -> (u64, c_int, u64) {
        self.guard = self.rados.title.run.clone();
        let mut tag = first;
        let mut end = (0, -libc::EBUSY, 0);
        for _ in 0..TRIES {
            if let Some(object) = object {
                self.fill(call, object);
            }
            let sent_ns = self.reactor.now_ns();
            let (result, ended_ns) = self.perform(context, call, tag).await;
            end = (sent_ns, result, ended_ns);
            tag = match (tag, -result) {
                (OwnerTag::First, libc::EEXIST) => OwnerTag::Ours,
                (OwnerTag::Ours, libc::ENOENT) if call.is_write() => OwnerTag::First,
                (OwnerTag::Ours, libc::ECANCELED) => match self.run_of(context).await {
                    // A run that the user named: use it in the next comparison.
                    Ok(Some(run)) if run != self.guard && self.rados.title.is_ours(&run) => {
                        self.guard = run;
                        OwnerTag::Ours
                    }
                    // Deleted meanwhile.
                    Err(libc::ENOENT) => OwnerTag::Ours,
                    _ => break,
                },
                _ => break,
            };
        }
        end
    }

    /// Returns the run that the object in `name` names, if any.
    async fn run_of(&mut self, context: Context) -> Result<Option<String>, c_int> {
        let call = Call::Attribute { length: RUN_BYTES_MAX };
        match self.perform(context, call, OwnerTag::None).await.0 {
            // Releases of Ceph differ here.
            0 => Ok(None),
            result if result == -libc::ENODATA => Ok(None),
            result => match usize::try_from(result) {
                Ok(length) => Ok(Some(self.text_read(length))),
                Err(_) => Err(-result),
            },
        }
    }

    /// Like `run_of`, for an object with a given name.
    pub(super) async fn run_at(
        &mut self,
        context: Context,
        name: &str,
    ) -> Result<Option<String>, c_int> {
        self.at(name);
        self.run_of(context).await
    }

    /// Deletes an object if it is ours; returns whether it no longer exists.
    pub(super) async fn remove_ours(
        &mut self,
        context: Context,
        name: &str,
    ) -> Result<bool, c_int> {
        self.at(name);
        match self.change_beside(context, Call::Remove, OwnerTag::Ours, None).await.1 {
            result if result == -libc::ECANCELED => Ok(false),
            result if result < 0 && result != -libc::ENOENT => Err(-result),
            _ => Ok(true),
        }
    }

    /// Submits a change together with its conditions.
    ///
    /// # Safety
    /// As for any submission: `name` ends with a zero byte, and `given` holds the content of a
    /// write.
    pub(super) unsafe fn submit_bound(
        &self,
        io: Context,
        aio: AioCompletion,
        (name, given): (*const c_char, *const c_char),
        call: Call,
        tag: OwnerTag,
    ) -> c_int {
        let library = self.library;
        let (run, guard) = (&self.rados.title.run, &self.guard);
        // SAFETY: we own the operation from its creation to its release, and librados copies its
        // arguments: the texts, the content and, when it is submitted, the steps.
        unsafe {
            let steps = (library.rados_create_write_op)();
            if matches!(tag, OwnerTag::Absent | OwnerTag::First) {
                (library.rados_write_op_create)(steps, EXCLUSIVE, ptr::null());
            }
            if tag == OwnerTag::First {
                let value = run.as_ptr().cast();
                (library.rados_write_op_setxattr)(steps, RUN.as_ptr(), value, run.len());
            }
            if tag == OwnerTag::Ours {
                let value = guard.as_ptr().cast();
                (library.rados_write_op_cmpxattr)(steps, RUN.as_ptr(), EQUAL, value, guard.len());
            }
            match call {
                Call::WriteFull { length } => {
                    (library.rados_write_op_write_full)(steps, given, length);
                }
                Call::WriteAt { offset, length } => {
                    (library.rados_write_op_write)(steps, given, length, offset);
                }
                Call::Append { length, .. } => {
                    (library.rados_write_op_append)(steps, given, length);
                }
                Call::Remove => (library.rados_write_op_remove)(steps),
                Call::Read { .. } | Call::Stat | Call::Attribute { .. } => {}
            }
            let result =
                (library.rados_aio_write_op_operate)(steps, io, aio, name, ptr::null_mut(), 0);
            (library.rados_release_write_op)(steps);
            result
        }
    }
}
