//! The subjects of a script: objects and listed prefixes, each with its key and its place.

use std::collections::HashMap;
use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_array::{LargeStringArray, RecordBatch, StringArray, UInt8Array, UInt32Array};
use loadstone_wire::digest::sha256;

use super::{Hashed, file};
use crate::error::Error;

/// The subject lies under none of the script's listed prefixes.
const NO_SPACE: u32 = u32::MAX;

/// A subject's key is wrapped for its user, whose number is that of its place.
const FOR_OWNER: u8 = 1;
const FOR_INBOX: u8 = 2;

/// Who can unwrap the key of an encrypted object. Users are numbered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reader {
    /// Any client of the run: the key is wrapped with a key of the run.
    #[default]
    Run,
    /// The user who wrote it: the key is wrapped with the user's own key.
    Owner(u32),
    /// The user whose inbox contains it: the key is wrapped with the user's public key.
    Inbox(u32),
}

/// The subjects, by number.
#[derive(Debug)]
pub(crate) struct Subjects {
    batches: Vec<Batch>,
    batch_rows: usize,
    count: u64,
    /// Prefix of every key.
    prefix: String,
    /// Subject numbers in the order of their keys, built when a key is first looked up.
    by_key: OnceLock<Vec<u32>>,
}

#[derive(Debug)]
struct Batch {
    place: UInt32Array,
    space: UInt32Array,
    wrap: UInt8Array,
    key: Keys,
}

#[derive(Debug)]
enum Keys {
    Short(StringArray),
    Long(LargeStringArray),
}

impl Subjects {
    pub(crate) fn open(hashed: Hashed<'_>, prefix: &str) -> Result<Self, Error> {
        let (_, batches) = file::open(hashed)?;
        let wrong = || {
            let path = hashed.path.display();
            Error::Trial(vec![format!("script \"{path}\": it is no table of subjects")])
        };
        let batches: Vec<Batch> =
            batches.iter().map(Batch::of).collect::<Option<_>>().ok_or_else(wrong)?;
        let batch_rows = batches.first().map_or(1, |batch| batch.place.len()).max(1);
        let (last, others) = batches.split_last().ok_or_else(wrong)?;
        if others.iter().any(|batch| batch.place.len() != batch_rows)
            || last.place.len() > batch_rows
        {
            return Err(wrong());
        }
        let count = batches.iter().map(|batch| batch.place.len() as u64).sum();
        if count > u64::from(u32::MAX) {
            return Err(wrong());
        }
        let prefix = prefix.to_owned();
        Ok(Self { batches, batch_rows, count, prefix, by_key: OnceLock::new() })
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Returns the key of a subject without the common prefix; empty for numbers beyond the last
    /// subject.
    #[inline]
    pub(crate) fn key(&self, subject: u64) -> &str {
        let Some((batch, at)) = self.at(subject) else { return "" };
        match &batch.key {
            Keys::Short(keys) => keys.value(at),
            Keys::Long(keys) => keys.value(at),
        }
    }

    /// Returns the number of the place of a subject.
    #[inline]
    pub(crate) fn place(&self, subject: u64) -> u64 {
        self.at(subject).map_or(0, |(batch, at)| u64::from(batch.place.value(at)))
    }

    /// Returns for whom a subject is encrypted, if objects are encrypted.
    #[inline]
    pub(crate) fn reader(&self, subject: u64) -> Reader {
        let Some((batch, at)) = self.at(subject) else { return Reader::Run };
        match batch.wrap.value(at) {
            FOR_OWNER => Reader::Owner(batch.place.value(at)),
            FOR_INBOX => Reader::Inbox(batch.place.value(at)),
            _ => Reader::Run,
        }
    }

    /// Returns the number of users for whom subjects are encrypted: the highest number plus one.
    pub(crate) fn users(&self) -> u32 {
        let rows = self
            .batches
            .iter()
            .flat_map(|batch| batch.place.values().iter().zip(batch.wrap.values()));
        let users = rows.filter(|(_, wrap)| matches!(**wrap, FOR_OWNER | FOR_INBOX));
        users.map(|(place, _)| place.saturating_add(1)).max().unwrap_or(0)
    }

    /// Returns the numbers of these users, by name.
    pub(crate) fn named_users(&self) -> HashMap<String, u32> {
        let mut users = HashMap::new();
        for subject in 0..self.count {
            if let Reader::Owner(user) | Reader::Inbox(user) = self.reader(subject)
                && let Some((name, _)) = self.key(subject).split_once('/')
                && !users.contains_key(name)
            {
                users.insert(name.to_owned(), user);
            }
        }
        users
    }

    /// Returns the longest listed prefix that contains a subject.
    pub(crate) fn space(&self, subject: u32) -> Option<u32> {
        let (batch, at) = self.at(u64::from(subject))?;
        Some(batch.space.value(at)).filter(|space| *space != NO_SPACE)
    }

    #[inline]
    fn at(&self, subject: u64) -> Option<(&Batch, usize)> {
        if subject >= self.count {
            return None;
        }
        let subject = subject as usize;
        Some((&self.batches[subject / self.batch_rows], subject % self.batch_rows))
    }

    /// Returns the subjects with this key, including the common prefix.
    pub(crate) fn with_key<'a>(&'a self, key: &'a str) -> impl Iterator<Item = u64> + 'a {
        let own_key = key.strip_prefix(&self.prefix);
        let sorted = self.by_key.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..self.count as u32).collect();
            numbers.sort_unstable_by(|a, b| self.key(u64::from(*a)).cmp(self.key(u64::from(*b))));
            numbers
        });
        own_key.into_iter().flat_map(move |own_key| {
            let first = sorted.partition_point(|number| self.key(u64::from(*number)) < own_key);
            let rest = sorted[first..].iter().map(|number| u64::from(*number));
            rest.take_while(move |number| self.key(*number) == own_key)
        })
    }

    /// Starts to check the keys of a listing.
    pub(crate) fn check_listing(&self, wanted: Listing) -> ListingCheck<'_> {
        let most = u64::from(wanted.entries).min(self.count);
        ListingCheck { prefix: &self.prefix, wanted, most, entries: 0, hash: 0, unread: 0 }
    }
}

impl Batch {
    fn of(batch: &RecordBatch) -> Option<Self> {
        let word =
            |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>().cloned();
        let key = batch.column_by_name("key")?;
        let short = key.as_string_opt::<i32>().cloned().map(Keys::Short);
        let key = short.or_else(|| key.as_string_opt::<i64>().cloned().map(Keys::Long))?;
        let wrap = batch.column_by_name("wrap")?.as_primitive_opt::<UInt8Type>()?.clone();
        Some(Self { place: word("place")?, space: word("space")?, wrap, key })
    }
}

/// A list of all keys under a prefix, and the expected set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The subject that is the prefix.
    pub(crate) prefix: u32,
    /// Number of keys; `u32::MAX` if unknown.
    pub(crate) entries: u32,
    /// Sum of the keys' hashes.
    pub(crate) hash: u64,
}

/// How a set of keys compares with the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetVerdict {
    /// It is the expected set, as far as that is known.
    Same,
    /// Keys are missing.
    Missing,
    /// There are additional keys.
    Extra,
    /// Names are encrypted, and some cannot be decrypted.
    Corrupt,
}

/// Checks the keys that a listing returns, by their number and the sum of their hashes.
#[derive(Debug)]
pub(crate) struct ListingCheck<'a> {
    prefix: &'a str,
    wanted: Listing,
    /// Maximum number of keys in a right answer.
    most: u64,
    entries: u64,
    hash: u64,
    /// Number of names that cannot be decrypted.
    unread: u64,
}

impl ListingCheck<'_> {
    /// Counts a key; `None` stands for an encrypted name that cannot be decrypted.
    pub(crate) fn add(&mut self, key: Option<&str>) {
        self.entries += 1;
        let Some(key) = key else {
            self.unread += 1;
            return;
        };
        if self.wanted.entries == u32::MAX {
            return;
        }
        let own_key = key.strip_prefix(self.prefix).unwrap_or(key);
        let digest = sha256(own_key.as_bytes());
        let first = digest.first_chunk().expect("a digest has 32 bytes");
        self.hash = self.hash.wrapping_add(u64::from_le_bytes(*first));
    }

    /// Describes the result for an error message.
    pub(crate) fn describe(&self) -> String {
        let (entries, wanted) = (self.entries, self.wanted.entries);
        if self.unread > 0 {
            let unread = self.unread;
            return format!("of the {entries} names in the listing {unread} do not decrypt");
        }
        match u64::from(wanted) {
            _ if wanted == u32::MAX => {
                format!("the listing has {entries} keys or more, the script {} in all", self.most)
            }
            wanted if wanted == entries => {
                format!("the listing has {entries} keys as it should, but others than it should")
            }
            wanted => format!("the listing has {entries} keys; by the script there are {wanted}"),
        }
    }

    /// Returns whether there are already too many keys, so that an endless listing ends.
    pub(crate) fn has_too_many(&self) -> bool {
        self.entries > self.most
    }

    pub(crate) fn entries(&self) -> u32 {
        u32::try_from(self.entries).unwrap_or(u32::MAX)
    }

    /// Compares the listed set with the expected one.
    pub(crate) fn verdict(&self) -> SetVerdict {
        let wanted = &self.wanted;
        let entries = u64::from(wanted.entries);
        if self.unread > 0 {
            SetVerdict::Corrupt
        } else if self.has_too_many() {
            SetVerdict::Extra
        } else if wanted.entries == u32::MAX || (self.entries, self.hash) == (entries, wanted.hash)
        {
            SetVerdict::Same
        } else {
            // The number is right but the keys differ: some are missing.
            SetVerdict::Missing
        }
    }
}
