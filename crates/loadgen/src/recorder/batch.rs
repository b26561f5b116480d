//! Converts complete seconds to Arrow rows, as the record stores them.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use loadstone_record as record;

use crate::recorder::{LogRow, Row, RowKey, Second};
use crate::script::ActionKind;

/// Which rows of seconds to convert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of<'a> {
    /// Rows of requests.
    Requests,
    /// Rows of a script's actions, by their kinds. Each action counts its requests as objects.
    Actions(&'a [ActionKind]),
}

/// Returns one row for each stage, iteration, operation (or action) and outcome of each second of
/// one agent.
#[must_use]
pub(crate) fn of_seconds(
    agent: &str,
    seconds: &[(u64, Second)],
    of: Of<'_>,
) -> Option<RecordBatch> {
    let is_meant = |key: &RowKey| key.doing.action_number().is_none() == (of == Of::Requests);
    let is_action = of != Of::Requests;
    if seconds.is_empty()
        || (is_action && !seconds.iter().any(|(_, rows)| rows.keys().any(is_meant)))
    {
        return None;
    }
    let mut columns = SecondColumns::default();
    let mut serializer = V2DeflateSerializer::new();
    for (second, rows) in seconds {
        for (key, row) in rows.iter().filter(|(key, _)| is_meant(key)) {
            columns.append(agent, *second, (key, row), of, &mut serializer);
        }
    }
    Some(columns.finish(of))
}

/// Builders for the columns of seconds.
#[derive(Default)]
struct SecondColumns {
    agents: StringBuilder,
    stages: StringBuilder,
    iterations: Int32Builder,
    operations: StringBuilder,
    outcomes: StringBuilder,
    /// Seconds, requests, objects, bytes, failed parts.
    numbers: [Int64Builder; 5],
    began: Int64Builder,
    ended: Int64Builder,
    spaces: StringBuilder,
    user_types: StringBuilder,
    /// Response, service, first byte, lag, part, encryption, wrapping, hashing, paths.
    histograms: [BinaryBuilder; 9],
}

impl SecondColumns {
    fn append(
        &mut self,
        agent: &str,
        second: u64,
        (key, row): (&RowKey, &Row),
        of: Of<'_>,
        serializer: &mut V2DeflateSerializer,
    ) {
        self.agents.append_value(agent);
        self.stages.append_value(key.stage.name());
        self.iterations.append_value(key.iteration as i32);
        let kinds = match of {
            Of::Requests => &[],
            Of::Actions(kinds) => kinds,
        };
        self.operations.append_value(key.doing.name(kinds));
        let kind = key.doing.action_number().and_then(|number| kinds.get(number));
        self.spaces.append_option(kind.and_then(|kind| kind.space.as_deref()));
        self.user_types.append_option(kind.and_then(|kind| kind.user_type.as_deref()));
        self.outcomes.append_value(key.outcome.name());
        let values = [second, row.requests, row.objects, row.bytes, row.parts_failed];
        for (builder, value) in self.numbers.iter_mut().zip(values) {
            builder.append_value(value as i64);
        }
        self.began.append_option(row.span.map(|(began_ns, _)| began_ns as i64));
        self.ended.append_option(row.span.map(|(_, ended_ns)| ended_ns as i64));
        // Under closed load, the intended start is the actual start, so both use the service
        // histogram.
        let response = row.response.as_deref().filter(|histogram| !histogram.is_empty());
        let histograms = [
            Some(response.unwrap_or(&row.service)),
            Some(&row.service),
            row.first_byte.as_deref(),
            row.lag.as_deref(),
            row.part.as_deref(),
            row.encryption.as_deref(),
            row.wrapping.as_deref(),
            row.hashing.as_deref(),
            row.paths.as_deref(),
        ];
        for (builder, histogram) in self.histograms.iter_mut().zip(histograms) {
            let filled = histogram.filter(|histogram| !histogram.is_empty());
            builder.append_option(filled.map(|histogram| encode(histogram, serializer)));
        }
    }

    /// # Panics
    /// Never: the columns grow together, so they have the same length.
    fn finish(mut self, of: Of<'_>) -> RecordBatch {
        let [second, requests, objects, bytes, parts_failed] = &mut self.numbers;
        let [response, service, first_byte, lag, part, encryption, wrapping, hashing, paths] =
            &mut self.histograms;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.agents.finish()),
            Arc::new(self.stages.finish()),
            Arc::new(self.iterations.finish()),
            Arc::new(self.operations.finish()),
            Arc::new(self.outcomes.finish()),
            Arc::new(second.finish()),
            Arc::new(requests.finish()),
            Arc::new(objects.finish()),
            Arc::new(bytes.finish()),
            Arc::new(response.finish()),
            Arc::new(service.finish()),
            Arc::new(first_byte.finish()),
            Arc::new(lag.finish()),
        ];
        // Only requests have parts. Only actions have times of cryptography, a span, spaces and
        // user types.
        let (schema, own_columns): (_, Vec<ArrayRef>) = match of {
            Of::Requests => (
                record::columns::intervals(),
                vec![Arc::new(part.finish()), Arc::new(parts_failed.finish())],
            ),
            Of::Actions(_) => (
                record::columns::actions(),
                vec![
                    Arc::new(encryption.finish()),
                    Arc::new(wrapping.finish()),
                    Arc::new(hashing.finish()),
                    Arc::new(self.began.finish()),
                    Arc::new(self.ended.finish()),
                    Arc::new(self.spaces.finish()),
                    Arc::new(self.user_types.finish()),
                    Arc::new(paths.finish()),
                ],
            ),
        };
        columns.extend(own_columns);
        RecordBatch::try_new(schema, columns).expect("built to the record's columns")
    }
}

/// Returns one row for each logged request of one agent. Times are nanoseconds since the trial's
/// start. `first_byte_ns` is zero if there was no answer, or if answers arrive in one piece.
///
/// # Panics
/// Never: the columns are built together, so they have the same length.
#[must_use]
pub(crate) fn of_requests(agent: &str, log: &[LogRow]) -> Option<RecordBatch> {
    if log.is_empty() {
        return None;
    }
    let text = |of: &dyn Fn(&LogRow) -> String| -> ArrayRef {
        let mut builder = StringBuilder::new();
        for row in log {
            builder.append_value(of(row));
        }
        Arc::new(builder.finish())
    };
    let number = |of: &dyn Fn(&LogRow) -> u64| -> ArrayRef {
        Arc::new(log.iter().map(|row| Some(of(row) as i64)).collect::<Int64Array>())
    };
    let columns: Vec<ArrayRef> = vec![
        text(&|_| agent.into()),
        text(&|row| row.key.stage.name().into()),
        number(&|row| u64::from(row.key.iteration)),
        text(&|row| row.key.doing.name(&[]).into()),
        text(&|row| row.key.outcome.name().into()),
        number(&|row| row.index),
        number(&|row| row.bytes),
        number(&|row| row.intended_ns),
        number(&|row| row.sent_ns),
        number(&|row| row.first_byte_ns),
        number(&|row| row.ended_ns),
    ];
    Some(
        RecordBatch::try_new(record::columns::requests(), columns)
            .expect("built to the record's columns"),
    )
}

/// Encodes a histogram in the compressed V2 format of HdrHistogram.
///
/// # Panics
/// Never: writing to memory cannot fail.
#[must_use]
pub fn encode(histogram: &Histogram<u64>, serializer: &mut V2DeflateSerializer) -> Vec<u8> {
    let mut bytes = Vec::new();
    serializer.serialize(histogram, &mut bytes).expect("writing to memory cannot fail");
    bytes
}

/// Like [`encode`], in base64; `None` for an empty histogram.
#[must_use]
pub(crate) fn encode_base64(histogram: &Histogram<u64>) -> Option<String> {
    if histogram.is_empty() {
        return None;
    }
    let bytes = encode(histogram, &mut V2DeflateSerializer::new());
    Some(base64::engine::general_purpose::STANDARD.encode(bytes))
}
