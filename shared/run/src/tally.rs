use crate::{Call, End, Record, Run};

/// What is counted over a run's records for those who see of the run no more than a summary.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    parkings: u32,
    error_code: Option<String>,
}

impl Tally {
    pub(crate) fn note(&mut self, record: &Record) {
        self.parkings += u32::from(record.parks());
        if let Record::Ended { end: End::Failed { error }, .. } = record {
            self.error_code = Some(error.code.clone()).filter(|code| is_code(code));
        }
    }
}

/// A script throws errors with any code; what is none of Rewind's may say too much.
fn is_code(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

impl Record {
    /// Does a call wait for a decision from here on?
    pub fn parks(&self) -> bool {
        match self {
            Record::Parked { .. } => true,
            Record::Called { call: call @ Call::Tool { terms, .. }, .. } => terms.approval && call.origin().is_none(),
            _ => false,
        }
    }
}

impl Run {
    /// How often a call began to wait for a decision, whether it still does or not.
    pub fn parkings(&self) -> u32 {
        self.tally.parkings
    }

    /// Of a run that has failed; none if it is not of the form that Rewind's own codes have.
    pub fn error_code(&self) -> Option<&str> {
        self.tally.error_code.as_deref()
    }
}
