//! Operations that read files or their attributes.

use std::io;
use std::os::fd::AsFd;

use super::FileClient;
use super::bucket::{Bucket, CLAIM_SUFFIX};
use super::directory::look;
use super::writes::attribute;
use crate::dataset::COPY_SUFFIX;
use crate::object_list::UNKNOWN_BYTES;
use crate::outcome::{Completion, Outcome};
use crate::payload::Verifier;
use crate::requests::{Request, Subject};
use crate::script::Listing;
use crate::transport::disk;
use crate::transport::reading::choose_ranges;

impl FileClient {
    pub(super) fn get(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        if let Subject::Copy(_) = request.subject {
            self.go_to_copy();
        }
        let file = disk::open_at(bucket.keys.as_fd(), self.name(), self.read_flags())?;
        let is_ours = !self.tree.dataset.is_listed();
        let mut verifier =
            (request.is_verified && is_ours).then(|| Verifier::new(&self.tree.payload, &object, 0));
        let mut offset = 0;
        loop {
            // Reads one byte more than expected, to detect a longer file.
            let left = usize::try_from(object.length - offset).unwrap_or(usize::MAX);
            let asked = left
                .min(self.tree.chunk_bytes)
                .saturating_add(usize::from(left < self.tree.chunk_bytes))
                .next_multiple_of(disk::ALIGNMENT);
            let bytes = disk::read_at(file.as_fd(), &mut self.buffer[..asked], offset)?;
            let now_ns = self.reactor.now_ns();
            if offset == 0 {
                completion.first_byte_ns = now_ns;
            }
            completion.ended_ns = now_ns;
            completion.bytes += bytes as u64;
            if let Some(verifier) = &mut verifier {
                verifier.update(&self.buffer[..bytes]);
            }
            let is_beyond = bytes > left;
            offset += bytes.min(left) as u64;
            if bytes == 0 || is_beyond || bytes % disk::ALIGNMENT != 0 || offset > object.length {
                break;
            }
            if offset == object.length && asked > bytes {
                break;
            }
        }
        match verifier {
            Some(verifier) => self.conclude(request, verifier, completion),
            None => self.compare_length(request, completion.bytes, object.length, completion),
        }
        Ok(())
    }

    fn conclude(&mut self, request: &Request, mut verifier: Verifier, completion: &mut Completion) {
        completion.outcome = Outcome::of_verdict(verifier.finish());
        completion.verified_bytes = verifier.checked_bytes();
        self.version = verifier.version().unwrap_or_default();
        if let Some(evidence) = verifier.evidence() {
            self.note(request, &evidence.to_string());
        }
    }

    pub(super) fn range_get(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        let range_bytes = self.tree.block_bytes;
        choose_ranges(request, object.length, range_bytes, 1, &mut self.ranges);
        let (first, end) = self.ranges[0];
        let file = disk::open_at(bucket.keys.as_fd(), self.name(), self.read_flags())?;
        let alignment = if self.tree.is_direct { disk::ALIGNMENT as u64 } else { 1 };
        let start = first - first % alignment;
        let asked = usize::try_from((end - start).next_multiple_of(alignment)).expect("a range");
        let bytes = disk::read_full_at(file.as_fd(), &mut self.buffer[..asked], start)?;
        completion.ended_ns = self.reactor.now_ns();
        let skipped = usize::try_from(first - start).expect("below a sector").min(bytes);
        let wanted = usize::try_from(end - first).expect("a range");
        let range = &self.buffer[skipped..bytes.min(skipped + wanted)];
        completion.bytes = range.len() as u64;
        if request.is_verified && !self.tree.dataset.is_listed() {
            let mut verifier = Verifier::for_range(&self.tree.payload, &object, first..end);
            verifier.update(range);
            self.conclude(request, verifier, completion);
        } else {
            completion.outcome = length_outcome(completion.bytes, end - first);
        }
        Ok(())
    }

    /// Compares a file's length with the expected one. The length of a file that others wrote may
    /// be unknown, or may have changed since it was listed.
    fn compare_length(
        &mut self,
        request: &Request,
        length: u64,
        expected: u64,
        completion: &mut Completion,
    ) {
        let is_listed = self.tree.dataset.is_listed();
        completion.outcome = match length_outcome(length, expected) {
            outcome if outcome.is_ok() || !is_listed => outcome,
            _ if expected == UNKNOWN_BYTES => Outcome::OK,
            _ => Outcome::CHANGED,
        };
        if !completion.outcome.is_ok() {
            self.note(request, &format!("it has {length} bytes instead of {expected}"));
        }
    }

    fn read_flags(&self) -> libc::c_int {
        // Links are not followed, and a pipe in the file's place does not block.
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        if self.tree.is_direct { flags | libc::O_DIRECT } else { flags }
    }

    pub(super) fn head(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        if self.tree.is_audit {
            return self.read_attribute(bucket);
        }
        let stat = look(bucket.keys.as_fd(), self.name())?;
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        if request.is_verified {
            self.compare_length(request, length, object.length, completion);
        }
        Ok(())
    }

    /// Reads the metadata of the current object, whose value the audit takes for a version.
    fn read_attribute(&mut self, bucket: &Bucket) -> io::Result<()> {
        let file = disk::open_at(bucket.keys.as_fd(), self.name(), self.read_flags())?;
        self.version = attribute(&file)?;
        Ok(())
    }

    /// Lists the directory that contains the keys with the requested prefix, up to one page of
    /// them.
    pub(super) fn list(
        &mut self,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        if let Subject::Listing(listing) = &request.subject {
            return self.list_prefix(listing, completion);
        }
        self.at_bucket(request.bucket());
        let tree = std::sync::Arc::clone(&self.tree);
        if let Some(mut keys) = tree.dataset.audit_listing(request.bucket()) {
            let place = tree.dataset.bucket(request.bucket());
            let prefix = &tree.dataset.spec().object_prefix;
            tree.for_each_file(&place, prefix, |object| {
                keys.add(&object.key);
                true
            })
            .map_err(|(_, error)| error)?;
            completion.objects = u32::try_from(keys.end()).unwrap_or(u32::MAX);
            return Ok(());
        }
        let prefix = match &tree.options.prefix {
            Some(prefix) => prefix,
            None => &tree.dataset.spec().object_prefix,
        };
        let (parents, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let directory = tree.open_page(request.bucket(), parents)?;
        let (keys_max, mut keys) = (tree.options.page_keys, 0);
        super::directory::for_each_name(directory.as_fd(), &mut self.buffer, |name| {
            let is_key = name.starts_with(start.as_bytes())
                && !name.starts_with(b".loadstone-")
                && !name.ends_with(COPY_SUFFIX.as_bytes())
                && !name.ends_with(CLAIM_SUFFIX.as_bytes());
            keys += u32::from(is_key);
            keys < keys_max
        })?;
        completion.objects = keys;
        Ok(())
    }

    /// Lists all names that stand for keys under a script's prefix.
    fn list_prefix(&mut self, listing: &Listing, completion: &mut Completion) -> io::Result<()> {
        let tree = std::sync::Arc::clone(&self.tree);
        let dataset = &tree.dataset;
        let bucket = dataset.bucket_of(u64::from(listing.prefix));
        self.at_bucket(bucket);
        let prefix = dataset.listed_prefix(listing);
        let (parents, start) = prefix.rsplit_once('/').unwrap_or(("", &prefix));
        let parents_end = prefix.len() - start.len();
        let directory = tree.open_page(bucket, parents)?;
        let mut check = dataset.check_listing(listing);
        super::directory::for_each_name(directory.as_fd(), &mut self.buffer, |name| {
            let is_key = name.starts_with(start.as_bytes())
                && !name.starts_with(b".loadstone-")
                && !name.ends_with(CLAIM_SUFFIX.as_bytes());
            if let Ok(name) = std::str::from_utf8(name)
                && is_key
            {
                let whole = format!("{}{name}", &prefix[..parents_end]);
                check.add(dataset.listed_key(&whole).as_deref());
            }
            true
        })?;
        completion.objects = check.entries();
        completion.outcome = Outcome::of_set(check.verdict());
        if !completion.outcome.is_ok() {
            self.last_error = Some(check.describe());
        }
        Ok(())
    }
}

fn length_outcome(length: u64, expected: u64) -> Outcome {
    match length.cmp(&expected) {
        std::cmp::Ordering::Less => Outcome::TRUNCATED,
        std::cmp::Ordering::Equal => Outcome::OK,
        std::cmp::Ordering::Greater => Outcome::OVERLONG,
    }
}
