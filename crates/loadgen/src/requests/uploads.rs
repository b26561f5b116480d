//! Uploads in parts, step by step: which upload a step of a mix is done to, and which part.
//!
//! A step that no upload is ready for makes way for the one that leads to it: a completion for a part,
//! a part for the begin of an upload. So a mix needs no weights that fit exactly.

use std::collections::VecDeque;

use crate::chance::{mix64, unit};
use crate::dataset::{Dataset, Object};
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::requests::{Request, Subject};
use crate::trial::{Division, PartOrder, Trial};

/// Uploads that a thread has open at once. When there are more, their parts come first.
const OPEN_MAX: usize = 1 << 10;

/// What is to be done next for the uploads of a thread.
pub(super) enum Step {
    Now(Operation, Subject),
    /// An upload of an object that no other has put.
    Begin,
    /// All uploads rest until then.
    Rest(u64),
}

#[derive(Debug)]
struct OpenUpload {
    object: Object,
    is_begun: bool,
    /// Numbers of the parts still to be uploaded; the next one is last.
    missing: Vec<u64>,
    parts: u64,
    /// Requests for it that have not ended.
    in_flight: u32,
    /// Until then nothing is done to it.
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
    /// What writes parts that are missing.
    part_operation: Operation,
    order: PartOrder,
    pause_ns: u64,
    ended_twice: f64,
    open: VecDeque<OpenUpload>,
    /// Uploads whose end was asked for, and is to be asked for again.
    contested: VecDeque<Object>,
}

impl Uploads {
    /// Makes those of a mix that uploads step by step.
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

    /// Chooses the upload that a step is done to, or the step that has to come before.
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

    /// Takes note that an upload of an object is about to begin.
    pub(super) fn add(&mut self, object: Object, chance: u64) {
        let bytes = self.dataset.length(object);
        // An object of no bytes has one part, of no bytes.
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

    /// Takes note of how a step ended.
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

    /// A part that is missing; where none is, one that is there is uploaded again.
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

    /// The end of an upload: of one that is ended twice, of a whole one, or of any that is given up.
    fn end(&mut self, drawn: Operation, chance: u64, now_ns: u64) -> Step {
        if let Some(object) = self.contested.pop_front() {
            return Step::Now(drawn, Subject::Block { object, number: LAST_END });
        }
        let is_contested = unit(mix64(chance)) < self.ended_twice;
        let is_fit = |upload: &OpenUpload| match drawn {
            Operation::CompleteUpload => upload.is_whole(),
            // A part in flight may meet the abort only where races are asked for.
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

/// The number of a block of a request that ends an upload: whether another such request follows.
pub(crate) const FIRST_END: u64 = 0;
pub(crate) const LAST_END: u64 = 1;
/// How long a client waits that finds all uploads in other clients' hands.
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

    /// Does a step at a time, as one client would; returns what was done, with its number.
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
    fn an_upload_rests_between_parts_while_others_go_on() {
        use Operation::{CreateUpload, UploadPart};
        let done = walk(
            &mut uploads(PartOrder::Ascending, 0.0),
            &[(CreateUpload, 0), (UploadPart, 1), (UploadPart, 5), (UploadPart, 11)],
        );
        assert_eq!(done, [(CreateUpload, 9), (UploadPart, 0), (CreateUpload, 9), (UploadPart, 1)]);
    }

    #[test]
    fn an_upload_is_ended_twice_where_that_is_asked_for() {
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
