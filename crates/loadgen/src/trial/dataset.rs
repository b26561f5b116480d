//! The dataset of a trial.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NamedFile, Trial};
use crate::error::Error;
use crate::object_list::ObjectList;
use crate::operation::Operation;

/// The objects: number, names, sizes and content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DatasetSpec {
    /// Object i lives in bucket `<prefix><i % buckets>`, or in `<prefix>` if there is only one
    /// bucket.
    pub bucket_prefix: String,
    /// Number of buckets.
    pub buckets: u64,
    /// Number of objects.
    pub objects: u64,
    /// Object i has the key `<prefix><i>`.
    pub object_prefix: String,
    /// Distribution of object sizes.
    pub size: SizeLaw,
    /// Compressible share of each page, 0 to 1.
    #[serde(default)]
    pub compressible: f64,
    /// Share of pages that repeat other pages, 0 to 1.
    #[serde(default)]
    pub duplicate: f64,
    /// File that objects take their content from, instead of random bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<NamedFile>,
    /// How the client encrypts each object before it sends it; not encrypted when absent.
    #[serde(default)]
    pub encryption: Option<Cipher>,
    /// How the client encrypts the paths of objects; not encrypted when absent.
    #[serde(default)]
    pub path_encryption: Option<PathCipher>,
    /// Incremented by each rewrite of the dataset.
    #[serde(default = "first_version")]
    pub version: u64,
    /// Oldest version that an object may still have; absent if every object has the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_version: Option<u64>,
    /// The run that wrote the objects, if it was another one. Content is checked against what that
    /// run wrote.
    #[serde(default)]
    pub written_by: Option<Origin>,
    /// Text between `object_prefix` and the number, if keys are spread over prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// List of the objects, if others wrote them. They are read and never written. They lie in the
    /// bucket `<bucket_prefix>` under the listed keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<NamedFile>,
}

/// The shard of a key: digits, then a constant text. The object of number i in its bucket has shard
/// i modulo the number of shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// Number of digits, with leading zeroes.
    pub digits: u32,
    /// Base of the digits: 10 or 16. There are base to the power of `digits` shards.
    pub base: u32,
    /// Text after the digits.
    pub tail: String,
}

impl Shards {
    /// Returns the number of shards.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::from(self.base).saturating_pow(self.digits)
    }
}

impl Trial {
    /// Opens the list of the trial's objects, if others wrote them.
    ///
    /// # Errors
    /// The file is not the list that the trial names, or has another number of objects.
    pub(crate) fn open_list(&self) -> Result<Option<Arc<ObjectList>>, Error> {
        let Some(file) = &self.dataset.existing else { return Ok(None) };
        let list = ObjectList::open(Path::new(&file.path), Some(&file.sha256))?;
        if list.len() != self.dataset.objects {
            let (listed, planned) = (list.len(), self.dataset.objects);
            return Err(Error::Trial(vec![format!(
                "list of objects \"{}\": found {listed} objects, the trial has {planned}",
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

/// The run that wrote the objects. Sizes and payload are functions of its ID and its seed.
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

/// Distribution of object sizes, in bytes. The size of an object is a function of the seed and its
/// number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SizeLaw {
    /// All objects have the same size.
    Fixed {
        /// Size of each object.
        bytes: u64,
    },
    /// Uniform between two bounds, both included.
    Uniform {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// Log-normal, truncated at two bounds.
    Lognormal {
        /// Median size.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// Weighted choice from a list.
    Weighted {
        /// Size and weight of each choice.
        choices: Vec<(u64, f64)>,
    },
    /// Sizes from the list of objects that others wrote.
    Listed {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
        /// Mean size; no load depends on it.
        mean: f64,
    },
}

/// How the client encrypts objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Cipher {
    /// AES-256 in Galois/counter mode: authenticated encryption.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// AES-256 in CBC mode with padding, followed by an HMAC-SHA-256.
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

/// How the client encrypts the paths of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum PathCipher {
    /// AES-SIV with two keys of 256 bits. Each segment of a path is encrypted separately and
    /// deterministically.
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
