//! What a tool did, as it wrote it down itself: one JSON line an attempt.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, ensure};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Effect {
    pub tool: String,
    pub key: String,
    /// `false`: the tool knew the key, and did nothing again.
    pub effect: bool,
}

/// The attempts in the file; none when the tool has not been called yet.
///
/// # Errors
/// When a line is none of an effect.
pub fn effects_of(file: &Path) -> anyhow::Result<Vec<Effect>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    // A line without its end is still being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| format!("reading {line:?}"))).collect()
}

/// Holds that no key had its effect twice, and gives the number of attempts of each key.
///
/// # Errors
/// When a key had more than one effect, or none.
pub fn one_effect_per_key(effects: &[Effect]) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut attempts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for effect in effects {
        let (all, done) = attempts.entry(effect.key.clone()).or_default();
        *all += 1;
        *done += usize::from(effect.effect);
    }
    for (key, (all, done)) in &attempts {
        ensure!(*done == 1, "{key}: {done} effects in {all} attempts");
    }
    Ok(attempts.into_iter().map(|(key, (all, _))| (key, all)).collect())
}
