//! What a reader of an object gets: its own bytes, or those of the objects it is made of.

use std::sync::Arc;

use md5::{Digest, Md5};

use crate::account::Account;
use crate::error::Refusal;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::listing::{Entry, Query};
use crate::stored::object::{Form, Object, Segment};

/// How deep large objects and links may refer to each other.
const DEPTH_MAX: usize = 10;

/// What a reader gets.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) body: Body,
    /// Without quotes.
    pub(crate) etag: Box<str>,
}

impl Account {
    /// Returns the object that a link stands for, or the object itself.
    pub(crate) fn follow(&self, mut object: Arc<Object>) -> Result<Arc<Object>, Refusal> {
        for _ in 0..DEPTH_MAX {
            let Form::Symlink(target) = &object.about.form else { return Ok(object) };
            let (container, name) = target.split_once('/').ok_or(Refusal::NoSuchKey)?;
            object = self.object(&*self.bucket(container)?, name, None)?;
        }
        Err(Refusal::Segment("symbolic links refer to each other".to_owned()))
    }

    /// Returns the bytes of an object, segments resolved.
    pub(crate) fn content(&self, object: &Object) -> Result<Content, Refusal> {
        self.content_within(object, DEPTH_MAX)
    }

    fn content_within(&self, object: &Object, depth: usize) -> Result<Content, Refusal> {
        if depth == 0 {
            return Err(Refusal::Segment("large objects are nested too deeply".to_owned()));
        }
        match &object.about.form {
            Form::StaticLarge(segments) => {
                let bodies: Result<Vec<_>, _> =
                    segments.iter().map(|segment| self.segment(object, segment, depth)).collect();
                Ok(Content { body: Body::join(&bodies?), etag: object.etag.clone() })
            }
            Form::DynamicLarge(place) => self.dynamic_large(place, depth),
            _ => Ok(Content { body: object.body.clone(), etag: object.etag.clone() }),
        }
    }

    fn segment(&self, manifest: &Object, segment: &Segment, depth: usize) -> Result<Body, Refusal> {
        if let (true, Some((first, last))) = (segment.is_inline(), segment.range) {
            return Ok(manifest.body.slice(first..last + 1));
        }
        let place = || format!("/{}/{}", segment.container, segment.object);
        let found = self
            .bucket(&segment.container)
            .and_then(|bucket| self.object(&bucket, &segment.object, None))
            .and_then(|found| self.follow(found))
            .map_err(|refusal| Refusal::Segment(format!("segment {}: {refusal}", place())))?;
        if *found.etag != *segment.etag {
            return Err(Refusal::Segment(format!("segment {} was overwritten", place())));
        }
        let body = self.content_within(&found, depth - 1)?.body;
        let Some((first, last)) = segment.range else { return Ok(body) };
        if first > last || last >= body.length() {
            return Err(Refusal::Segment(format!("segment {} is too short", place())));
        }
        Ok(body.slice(first..last + 1))
    }

    fn dynamic_large(&self, place: &str, depth: usize) -> Result<Content, Refusal> {
        let (container, prefix) = place.split_once('/').unwrap_or((place, ""));
        let query = Query { prefix, limit: usize::MAX, ..Query::default() };
        let page = match self.bucket(container) {
            Ok(bucket) => bucket.index().list(query),
            Err(_) => {
                return Ok(Content { body: Body::empty(), etag: hex(&Md5::digest(b"")).into() });
            }
        };
        let mut md5 = Md5::new();
        let mut bodies = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            let Entry::Key(_, segment) = entry else { continue };
            md5.update(segment.etag.as_bytes());
            bodies.push(self.content_within(&segment, depth - 1)?.body);
        }
        Ok(Content { body: Body::join(&bodies), etag: hex(&md5.finalize()).into() })
    }
}
