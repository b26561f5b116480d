//! What a trial works on.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NamedFile, Trial};
use crate::error::Error;
use crate::object_list::ObjectList;
use crate::operation::Operation;

/// The objects: how many, named how, how large, filled with what.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DatasetSpec {
    /// Object i lives in bucket `<prefix><i % buckets>`, or in `<prefix>` when there is only one.
    pub bucket_prefix: String,
    /// Number of buckets.
    pub buckets: u64,
    /// Number of objects.
    pub objects: u64,
    /// Object i is called `<prefix><i>`.
    pub object_prefix: String,
    /// How large each is.
    pub size: SizeLaw,
    /// Share of each page that compresses away, 0 to 1.
    #[serde(default)]
    pub compressible: f64,
    /// Share of pages that repeat others, 0 to 1.
    #[serde(default)]
    pub duplicate: f64,
    /// The file whose bytes objects hold, instead of random ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<NamedFile>,
    /// How the client encrypts each object before it sends it; not at all when absent.
    #[serde(default)]
    pub encryption: Option<Cipher>,
    /// How the client encrypts the paths of objects; not at all when absent.
    #[serde(default)]
    pub path_encryption: Option<PathCipher>,
    /// Grows by one with every rewriting of the dataset.
    #[serde(default = "first_version")]
    pub version: u64,
    /// The run that wrote the objects, where it was another one: what they hold is checked as its.
    #[serde(default)]
    pub written_by: Option<Origin>,
    /// What stands between `object_prefix` and the number, where keys are spread over prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// The list of its objects, where others wrote them: they are read and never written. They lie in
    /// the bucket `<bucket_prefix>`, and keys are those of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<NamedFile>,
}

/// A key's shard: digits, and what stands behind them. Object i of a bucket has the shard i modulo
/// their number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// How many digits there are; leading ones are zeroes.
    pub digits: u32,
    /// Of which base: 10 or 16. There are as many shards as digits can tell.
    pub base: u32,
    /// What stands behind the digits.
    pub tail: String,
}

impl Shards {
    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::from(self.base).saturating_pow(self.digits)
    }
}

impl Trial {
    /// Opens the list of the trial's objects, where others wrote them.
    ///
    /// # Errors
    /// The file is not the list that the trial names, or has another number of objects.
    pub(crate) fn open_list(&self) -> Result<Option<Arc<ObjectList>>, Error> {
        let Some(file) = &self.dataset.existing else { return Ok(None) };
        let list = ObjectList::open(Path::new(&file.path), Some(&file.sha256))?;
        if list.len() != self.dataset.objects {
            let (found, planned) = (list.len(), self.dataset.objects);
            return Err(Error::Trial(vec![format!(
                "list of objects \"{}\": found {found} objects, the trial has {planned}",
                file.path
            )]));
        }
        let needs_sizes = |operation| {
            matches!(
                operation,
                Operation::RangeGet | Operation::MultiRangeGet | Operation::MultipartGet
            )
        };
        let unknown = list.facts().without_size;
        if unknown > 0 && self.mix.iter().any(|share| needs_sizes(share.operation)) {
            return Err(Error::Trial(vec![format!(
                "list of objects \"{}\": it has no size for {unknown} of its objects, and ranges \
                 need them",
                file.path
            )]));
        }
        Ok(Some(Arc::new(list)))
    }
}

/// The run that objects come from: sizes and payload are functions of its identity and its seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The run: 32 hex digits.
    pub run: String,
    /// The seed of its campaign.
    pub seed: u64,
}

fn first_version() -> u64 {
    1
}

/// The law of object sizes, in bytes. The size of an object is a function of the seed and its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SizeLaw {
    /// All the same.
    Fixed {
        /// The size.
        bytes: u64,
    },
    /// Equally likely between two bounds, both included.
    Uniform {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// Log-normal, cut at two bounds.
    Lognormal {
        /// Half of the objects are smaller.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// One of a list, by weight.
    Weighted {
        /// Size and weight of each choice.
        choices: Vec<(u64, f64)>,
    },
    /// That of a list of objects that others wrote.
    Listed {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
        /// Mean size; no load depends on it.
        mean: f64,
    },
}

/// How a client encrypts objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Cipher {
    /// AES with a key of 256 bits in Galois/counter mode: encrypted and authenticated.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// AES with a key of 256 bits in cipher block chaining mode, padded, with an HMAC-SHA-256 behind.
    #[serde(rename = "aes-256-cbc")]
    Aes256Cbc,
}

impl Cipher {
    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::Aes256Cbc => "aes-256-cbc",
        }
    }
}

/// How a client encrypts the paths of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum PathCipher {
    /// AES-SIV with two keys of 256 bits: each segment of a key is sealed by itself, always to the same.
    #[serde(rename = "aes-256-siv")]
    Aes256Siv,
}

impl PathCipher {
    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Siv => "aes-256-siv",
        }
    }
}
