//! Calls that are answered later, by any process.

use std::{fmt, str::FromStr};

use rewind_bus::{Bus, Url, command::Answer};
use rewind_model::{ErrorCode, Json, Key, Outcome, Payload};
use serde::Serialize;

use crate::{
    ToolError, WorkerError,
    call::{bounded, publish},
};

/// Begins every token: the version of its form.
const PREFIX: &str = "later1";

/// Names a call that is answered later ([`crate::Ctx::complete_later`]): a text of letters, digits, `_` and `.`, at
/// most 64 bytes. It is no secret by itself: to answer, one needs the credentials of NATS as well.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    key: Key,
    attempt: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no token of a call: `ctx.complete_later()` gives them")]
pub struct TokenError(String);

impl Token {
    pub(crate) fn new(key: Key, attempt: u32) -> Self {
        Self { key, attempt }
    }

    /// `{run}/{seq}`: the call's idempotency key.
    pub fn idempotency_key(&self) -> String {
        self.key.to_string()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}.{}.{}.{}", self.key.run, self.key.seq, self.attempt)
    }
}

impl FromStr for Token {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let parse = || {
            let mut parts = text.split('.');
            let prefix = parts.next()?;
            let key = Key { run: parts.next()?.parse().ok()?, seq: parts.next()?.parse().ok()? };
            let attempt = parts.next()?.parse().ok()?;
            (prefix == PREFIX && parts.next().is_none()).then_some(Self { key, attempt })
        };
        parse().ok_or_else(|| TokenError(text.chars().take(64).collect()))
    }
}

/// Answers calls by their tokens, from wherever one can reach NATS.
///
/// Of several answers to a call the first one counts; later ones, and those to a call whose run has ended,
/// change nothing. An answer counts as given when NATS has it: a node that is away learns of it later.
#[derive(Debug, Clone)]
pub struct Answers {
    bus: Bus,
}

impl Answers {
    /// Connects, however long that takes.
    ///
    /// # Errors
    /// When the URL is none, or NATS refuses it.
    pub async fn connect(nats_url: &str) -> Result<Self, WorkerError> {
        let url: Url = nats_url.parse()?;
        Ok(Self { bus: Bus::connect_only(&url, "rewind-answers").await? })
    }

    /// The call's result.
    ///
    /// # Errors
    /// When NATS will never take the answer.
    pub async fn complete<R: Serialize>(&self, token: &Token, result: &R) -> Result<(), WorkerError> {
        let outcome = match Json::of(result) {
            Ok(result) => Outcome::Ok(Payload::Inline(result)),
            Err(error) => {
                let message = format!("the result cannot be written as JSON: {error}");
                Outcome::Err(ToolError::of_kind(ErrorCode::InvalidResult, message).into_failure())
            }
        };
        self.answer(token, outcome).await
    }

    /// The call's failure, which the script gets as a `ToolError`.
    ///
    /// # Errors
    /// When NATS will never take the answer.
    pub async fn fail(&self, token: &Token, error: ToolError) -> Result<(), WorkerError> {
        self.answer(token, Outcome::Err(error.into_failure())).await
    }

    async fn answer(&self, token: &Token, outcome: Outcome) -> Result<(), WorkerError> {
        let Token { key, attempt } = token;
        let mut answer = Answer { seq: key.seq, attempt: *attempt, outcome: bounded(outcome), timed_out: false };
        let reply = rewind_bus::names::command(&key.run);
        Ok(publish(&self.bus, &key.run, &reply, &mut answer).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = Token::new(Key { run: rewind_model::RunId::new(1), seq: 10_000 }, 3);
        let text = token.to_string();
        assert!(text.len() <= 64, "{text}");
        assert_eq!(text.parse::<Token>().expect("a token"), token);
        for bad in ["", "later1", "later2.run_0.1.1", &format!("{text}.1"), &text.replace("run_", "run")] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
    }
}
