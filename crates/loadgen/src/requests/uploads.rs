//! Multipart uploads, step by step: chooses the upload and the part for each step of a mix.
//!
//! If no upload is ready for a step, the step that leads to it takes its place: a part in place of
//! a completion, the begin of an upload in place of a part. So the weights of a mix need not match
//! exactly.

use std::collections::VecDeque;

use crate::chance::{mix64, unit};
use crate::dataset::{Dataset, Object};
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::requests::{Request, Subject};
use crate::trial::{Division, PartOrder, Trial};

/// Maximum number of uploads that a thread has open; above it, parts take precedence.
const OPEN_MAX: usize = 1 << 10;

/// The next step for the uploads of a thread.
pub(super) enum Step {
    Now(Operation, Subject),
    /// Begin an upload of a new object.
    Begin,
    /// All uploads pause until then.
    Rest(u64),
}

#[derive(Debug)]
struct OpenUpload {
    object: Object,
    is_begun: bool,
    /// Numbers of the missing parts; the next one to send is last.
    missing: Vec<u64>,
    parts: u64,
    /// Number of its requests in flight.
    in_flight: u32,
    /// It pauses until then.
    rests_until_ns: u64,
}

impl OpenUpload {
    fn is_whole(&self) -> bool {
        self.is_begun && self.missing.is_empty() && self.in_flight == 0
    }
}

/// The uploads of a load thread.
#[derive(Debug)]
pub(super) struct Uploads {
    dataset: Dataset,
    part_bytes: Option<u64>,
    /// The operation that writes missing parts.
    part_operation: Operation,
    order: PartOrder,
    pause_ns: u64,
    ended_twice: f64,
    open: VecDeque<OpenUpload>,
    /// Uploads that were ended once and are to be ended again.
    contested: VecDeque<Object>,
}

impl Uploads {
    /// Creates the uploads of a mix that uploads step by step.
    pub(super) fn of_trial(trial: &Trial) -> Option<Self> {
        let has = |operation| trial.mix.iter().any(|share| share.operation == operation);
        let options = &trial.options;
        let copies_alone = has(Operation::UploadPartCopy) && !has(Operation::UploadPart);
        has(Operation::CreateUpload).then(|| Self {
            dataset: Dataset::new(trial),
            part_bytes: options.part_bytes,
            part_operation: match copies_alone {
                true => Operation::UploadPartCopy,
                false => Operation::UploadPart,
            },
            order: options.part_order,
            pause_ns: options.part_pause_ns,
            ended_twice: options.ended_twice,
            open: VecDeque::new(),
            contested: VecDeque::new(),
        })
    }

    /// Chooses the upload for a step, or the step that has to come before.
    pub(super) fn choose(&mut self, drawn: Operation, chance: u64, now_ns: u64) -> Step {
        match drawn {
            Operation::CreateUpload if self.open.len() < OPEN_MAX => Step::Begin,
            Operation::CompleteUpload | Operation::AbortUpload => self.end(drawn, chance, now_ns),
            Operation::ListParts => match self.ready(now_ns, |upload| upload.is_begun) {
                Some(at) => {
                    self.open[at].in_flight += 1;
                    Step::Now(drawn, Subject::Object(self.open[at].object))
                }
                None => self.begin(now_ns),
            },
            Operation::UploadPart | Operation::UploadPartCopy => self.part(drawn, chance, now_ns),
            _ => self.part(self.part_operation, chance, now_ns),
        }
    }

    /// Records that an upload of an object is about to begin.
    pub(super) fn add(&mut self, object: Object, chance: u64) {
        let bytes = self.dataset.length(object);
        // An empty object has one empty part.
        let parts = Division::new(bytes, self.part_bytes).count().max(1);
        let mut missing: Vec<u64> = (0..parts).rev().collect();
        match self.order {
            PartOrder::Ascending => {}
            PartOrder::Descending => missing.reverse(),
            PartOrder::Shuffled => missing.sort_by_key(|part| mix64(chance ^ mix64(*part))),
        }
        let upload =
            OpenUpload { object, is_begun: false, missing, parts, in_flight: 0, rests_until_ns: 0 };
        self.open.push_back(upload);
    }

    /// Records how a step ended.
    pub(super) fn note(&mut self, request: &Request, completion: &Completion) {
        let index = request.object().index;
        let Some(at) = self.open.iter().position(|upload| upload.object.index == index) else {
            return;
        };
        let upload = &mut self.open[at];
        match request.operation {
            Operation::CreateUpload if completion.outcome.is_ok() => upload.is_begun = true,
            Operation::CreateUpload => drop(self.open.remove(at)),
            Operation::ListParts => upload.in_flight -= 1,
            Operation::UploadPart | Operation::UploadPartCopy => {
                upload.in_flight -= 1;
                if self.pause_ns > 0 {
                    upload.rests_until_ns = completion.ended_ns + self.pause_ns;
                }
                if !completion.outcome.is_ok() && !upload.missing.contains(&request.block()) {
                    upload.missing.push(request.block());
                }
            }
            _ => {}
        }
    }

    fn ready(&self, now_ns: u64, is_fit: impl Fn(&OpenUpload) -> bool) -> Option<usize> {
        self.open.iter().position(|upload| upload.rests_until_ns <= now_ns && is_fit(upload))
    }

    /// Sends a missing part; if none is missing, sends a part again.
    fn part(&mut self, drawn: Operation, chance: u64, now_ns: u64) -> Step {
        let missing = |upload: &OpenUpload| upload.is_begun && !upload.missing.is_empty();
        let at = self.ready(now_ns, missing);
        let Some(at) = at.or_else(|| self.ready(now_ns, |upload| upload.is_begun)) else {
            return self.begin(now_ns);
        };
        let upload = &mut self.open[at];
        let number = upload.missing.pop().unwrap_or(chance % upload.parts);
        upload.in_flight += 1;
        Step::Now(drawn, Subject::Block { object: upload.object, number })
    }

    /// Ends an upload: one that is to be ended twice, a complete one, or, for an abort, any.
    fn end(&mut self, drawn: Operation, chance: u64, now_ns: u64) -> Step {
        if let Some(object) = self.contested.pop_front() {
            return Step::Now(drawn, Subject::Block { object, number: LAST_END });
        }
        let is_contested = unit(mix64(chance)) < self.ended_twice;
        let is_fit = |upload: &OpenUpload| match drawn {
            Operation::CompleteUpload => upload.is_whole(),
            // An abort may meet a part in flight only if races are requested.
            _ => upload.is_begun && (upload.in_flight == 0 || is_contested),
        };
        let Some(at) = self.ready(now_ns, is_fit) else {
            return self.part(self.part_operation, chance, now_ns);
        };
        let Some(OpenUpload { object, .. }) = self.open.remove(at) else { return Step::Begin };
        if is_contested {
            self.contested.push_back(object);
        }
        let number = if is_contested { FIRST_END } else { LAST_END };
        Step::Now(drawn, Subject::Block { object, number })
    }

    fn begin(&self, now_ns: u64) -> Step {
        if self.open.len() < OPEN_MAX {
            return Step::Begin;
        }
        let rests = self.open.iter().map(|upload| upload.rests_until_ns);
        Step::Rest(rests.min().unwrap_or(0).max(now_ns + LOOK_NS))
    }
}

/// Block number of a request that ends an upload if another such request follows.
pub(crate) const FIRST_END: u64 = 0;
pub(crate) const LAST_END: u64 = 1;
/// How long a client waits when all uploads are in use by other clients.
const LOOK_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn uploads(order: PartOrder, ended_twice: f64) -> Uploads {
        let mut trial = crate::requests::tests::trial(r#"[{"operation":"create_upload"}]"#, "");
        trial.dataset.size = crate::trial::SizeLaw::Fixed { bytes: 4096 };
        trial.options.part_bytes = Some(1024);
        trial.options.part_order = order;
        trial.options.part_pause_ns = 10;
        trial.options.ended_twice = ended_twice;
        Uploads::of_trial(&trial).expect("its mix begins uploads")
    }

    /// Performs one step at a time, as one client would; returns each step with its number.
    fn walk(uploads: &mut Uploads, drawn: &[(Operation, u64)]) -> Vec<(Operation, u64)> {
        let mut done = Vec::new();
        for (number, (operation, now_ns)) in drawn.iter().enumerate() {
            let step = uploads.choose(*operation, number as u64, *now_ns);
            let (operation, subject) = match step {
                Step::Now(operation, subject) => (operation, subject),
                Step::Begin => {
                    let object = Object { index: 100 + number as u64, version: 1 };
                    uploads.add(object, 7);
                    (Operation::CreateUpload, Subject::Object(object))
                }
                Step::Rest(_) => panic!("few are open"),
            };
            let request = Request { operation, subject, chance: 0, is_verified: false };
            if matches!(
                operation,
                Operation::CreateUpload | Operation::UploadPart | Operation::UploadPartCopy
            ) {
                let ended = Completion::plain(Outcome::OK, *now_ns, *now_ns, *now_ns);
                uploads.note(&request, &ended);
            }
            done.push((
                operation,
                if let Subject::Block { number, .. } = subject { number } else { 9 },
            ));
        }
        done
    }

    #[test]
    fn a_completion_waits_for_all_parts_in_their_order() {
        use Operation::{CompleteUpload, CreateUpload, UploadPart};
        let drawn: Vec<_> = (0..6).map(|number| (CompleteUpload, number * 10)).collect();
        let of = |order| walk(&mut uploads(order, 0.0), &drawn);
        let parts = |numbers: [u64; 4]| numbers.map(|number| (UploadPart, number));
        for (order, numbers) in
            [(PartOrder::Ascending, [0, 1, 2, 3]), (PartOrder::Descending, [3, 2, 1, 0])]
        {
            let [first, second, third, fourth] = parts(numbers);
            let whole = (CompleteUpload, LAST_END);
            assert_eq!(of(order), [(CreateUpload, 9), first, second, third, fourth, whole]);
        }
        let mut shuffled: Vec<u64> =
            of(PartOrder::Shuffled)[1..5].iter().map(|(_, number)| *number).collect();
        shuffled.sort_unstable();
        assert_eq!(shuffled, [0, 1, 2, 3]);
    }

    #[test]
    fn an_upload_pauses_between_parts_while_others_continue() {
        use Operation::{CreateUpload, UploadPart};
        let done = walk(
            &mut uploads(PartOrder::Ascending, 0.0),
            &[(CreateUpload, 0), (UploadPart, 1), (UploadPart, 5), (UploadPart, 11)],
        );
        assert_eq!(done, [(CreateUpload, 9), (UploadPart, 0), (CreateUpload, 9), (UploadPart, 1)]);
    }

    #[test]
    fn an_upload_is_ended_twice_if_requested() {
        use Operation::{AbortUpload, CompleteUpload, CreateUpload};
        let done = walk(
            &mut uploads(PartOrder::Ascending, 1.0),
            &[(CreateUpload, 0), (AbortUpload, 1), (CompleteUpload, 2), (AbortUpload, 3)],
        );
        let expected = [
            (CreateUpload, 9),
            (AbortUpload, FIRST_END),
            (CompleteUpload, LAST_END),
            (CreateUpload, 9),
        ];
        assert_eq!(done, expected);
    }
}
