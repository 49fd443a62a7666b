//! Records on their way into the journal: made to fit a message, then appended.

use rewind_bus::{Bus, BusError, journal::Summary};
use rewind_model::{Limits, RunId, RunStatus};
use rewind_run::{Entry, Record};

/// Bytes of records that one journal message holds at most: half of NATS' default `max_payload`.
const MESSAGE: usize = 512 << 10;
/// What a record takes besides its payload, at most, for all that is not a text of its own.
const ENVELOPE: usize = 512;

/// Appends `records` after the message `after`, and gives the sequence of the last message. They are
/// one message, unless a turn records more than a message may hold: the core is as good at replaying
/// a part of a turn, and nothing is acted on before all of it is there.
///
/// # Errors
/// [`BusError::Fenced`] when another owner has appended.
pub(crate) async fn append(
    bus: &Bus,
    run: &RunId,
    summary: &Summary,
    mut records: Vec<Record>,
    mut after: u64,
    limits: &Limits,
) -> Result<u64, BusError> {
    spill(bus, run, &mut records, limits).await?;
    let mut messages = split(records);
    let last = messages.pop().unwrap_or_default();
    let unfinished = Summary { status: RunStatus::Running, ended_at: None, error_code: None, ..summary.clone() };
    for records in messages {
        after = bus.append(run, &unfinished, &Entry::new(records), after).await?;
    }
    bus.append(run, summary, &Entry::new(last), after).await
}

/// Puts payloads over the inline limit into the blob store.
async fn spill(bus: &Bus, run: &RunId, records: &mut [Record], limits: &Limits) -> Result<(), BusError> {
    for payload in records.iter_mut().filter_map(Record::payload_mut) {
        if payload.inline_size() > limits.inline_bytes {
            bus.payload_to_blob_surely(run, payload).await?;
        }
    }
    Ok(())
}

fn split(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut messages = Vec::new();
    let mut message = Vec::new();
    let mut bytes = 0;
    for record in records {
        let size = record.size() + ENVELOPE;
        if bytes + size > MESSAGE && !message.is_empty() {
            messages.push(std::mem::take(&mut message));
            bytes = 0;
        }
        bytes += size;
        message.push(record);
    }
    messages.push(message);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use rewind_model::Timestamp;

    #[test]
    fn a_large_turn_is_several_messages_in_order() {
        let line = |n: usize| Record::Logged {
            at: Timestamp::default(),
            level: "log".into(),
            text: n.to_string().repeat(4_000),
        };
        let records: Vec<Record> = (0..500).map(line).collect();
        let messages = split(records.clone());
        assert!(messages.len() > 1);
        for message in &messages {
            let bytes = Entry::new(message.clone()).to_bytes().expect("writable").len();
            assert!(bytes < 1 << 20, "{bytes}");
        }
        assert_eq!(messages.concat(), records);
    }
}
