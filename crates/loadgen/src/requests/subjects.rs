//! Chooses the object, block, bucket or batch for a ticket of one operation.

use crate::dataset::{KeyChooser, Object};
use crate::operation::Operation;
use crate::requests::tickets::Ticket;
use crate::requests::{LAST_END, Subject};
use crate::trial::{Keys, Options, Order, Share, Trial};

/// Chooses among the subjects of a dataset, in the trial's key order.
#[derive(Debug)]
pub(super) struct Subjects {
    /// Number of objects.
    pub(super) objects: u64,
    version: u64,
    buckets: u64,
    bulk_keys: u64,
    chooser: KeyChooser,
    /// Number of blocks of the largest object, and the chooser among the blocks of all objects.
    blocks: u64,
    block_chooser: KeyChooser,
    /// Chooser among the objects that clients contend for.
    contended: KeyChooser,
}

impl Subjects {
    pub(super) fn new(trial: &Trial) -> Self {
        let Options { bulk_keys, range_bytes, part_bytes, contended_keys, .. } = trial.options;
        let contended = contended_keys.clamp(1, trial.dataset.objects.max(1));
        let uniform = Keys { order: Order::Uniform, theta: None };
        let largest = trial.dataset.size.max();
        let is_in_parts = |share: &Share| share.operation.is_upload_step();
        let block_bytes = if trial.mix.iter().any(is_in_parts) { part_bytes } else { range_bytes };
        let blocks = largest.div_ceil(block_bytes.unwrap_or(largest).max(1)).max(1);
        let units = trial.dataset.objects.saturating_mul(blocks);
        Self {
            objects: trial.dataset.objects,
            version: trial.dataset.version,
            buckets: trial.dataset.buckets,
            bulk_keys: u64::from(bulk_keys).max(1),
            chooser: KeyChooser::new(&trial.keys, trial.dataset.objects, trial.seed),
            blocks,
            block_chooser: KeyChooser::new(&trial.keys, units, trial.seed),
            contended: KeyChooser::new(&uniform, contended, trial.seed),
        }
    }

    /// Returns an object, of the dataset or beyond it, in the dataset's version.
    #[inline]
    pub(super) fn object(&self, index: u64) -> Object {
        Object { index, version: self.version }
    }

    #[inline(always)]
    pub(super) fn choose(&mut self, operation: Operation, ticket: &Ticket) -> Subject {
        match operation {
            Operation::List
            | Operation::ListVersions
            | Operation::ListUploads
            | Operation::CreateBucket
            | Operation::DeleteBucket => Subject::Bucket(ticket.number % self.buckets),
            Operation::BulkDelete => {
                let (bucket, batch) = (ticket.number % self.buckets, ticket.number / self.buckets);
                let first = bucket + batch * self.bulk_keys * self.buckets;
                let left = self.objects.saturating_sub(first).div_ceil(self.buckets);
                Subject::Batch { first, keys: left.min(self.bulk_keys) as u32 }
            }
            Operation::CompareAndSwap => {
                let index = self.contended.choose(ticket.number, ticket.chance);
                Subject::Object(self.object(index))
            }
            Operation::CompleteUpload | Operation::AbortUpload => {
                let index = self.chooser.choose(ticket.number, ticket.chance);
                Subject::Block { object: self.object(index), number: LAST_END }
            }
            Operation::Read
            | Operation::Write
            | Operation::UploadPart
            | Operation::UploadPartCopy => {
                let unit = self.block_chooser.choose(ticket.number, ticket.chance);
                let object = self.object(unit / self.blocks);
                Subject::Block { object, number: unit % self.blocks }
            }
            _ => Subject::Object(self.object(self.chooser.choose(ticket.number, ticket.chance))),
        }
    }
}

/// Returns the number of bulk requests that delete a whole dataset.
#[must_use]
pub(crate) fn bulk_requests(objects: u64, buckets: u64, bulk_keys: u64) -> u64 {
    (0..buckets.min(objects))
        .map(|bucket| (objects - bucket).div_ceil(buckets).div_ceil(bulk_keys.max(1)))
        .max()
        .unwrap_or(0)
        * buckets
}
