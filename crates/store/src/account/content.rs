//! The bytes that a reader of an object gets: the object's own, or those of its segments.

use crate::account::Account;
use crate::error::Refusal;
use crate::stored::body::Body;
use crate::stored::object::{Form, Object, Segment};

impl Account {
    /// Returns the bytes of an object; those of a static large object come from its segments.
    pub(crate) fn content(&self, object: &Object) -> Result<Body, Refusal> {
        let Form::StaticLarge(segments) = &object.about.form else {
            return Ok(object.body.clone());
        };
        let bodies: Result<Vec<_>, _> =
            segments.iter().map(|segment| self.segment(segment)).collect();
        Ok(Body::join(&bodies?))
    }

    fn segment(&self, segment: &Segment) -> Result<Body, Refusal> {
        let place = || format!("/{}/{}", segment.container, segment.object);
        let object = self
            .bucket(&segment.container)
            .and_then(|bucket| self.object(&bucket, &segment.object, None))
            .map_err(|refusal| Refusal::Segment(format!("segment {}: {refusal}", place())))?;
        if *object.etag != *segment.etag {
            return Err(Refusal::Segment(format!("segment {} was overwritten", place())));
        }
        Ok(object.body.clone())
    }
}
