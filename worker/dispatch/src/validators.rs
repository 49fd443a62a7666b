use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rewind_model::{Digest, Limits};
use rewind_schema::{SchemaError, Validator};
use serde_json::Value;

/// Entries after which those that nobody uses any more are dropped.
const KEPT: usize = 10_000;

/// Compiled schemas by their digest: toolsets that pin the same tool share its validator.
#[derive(Debug)]
pub struct Validators {
    limits: Limits,
    by_digest: Mutex<HashMap<Digest, Weak<Validator>>>,
}

impl Validators {
    pub fn new(limits: Limits) -> Self {
        Self { limits, by_digest: Mutex::default() }
    }

    /// The validator of `schema`, which lives as long as somebody holds it.
    ///
    /// # Errors
    /// As [`Validator::new`].
    pub fn of(&self, schema: &Value) -> Result<Arc<Validator>, SchemaError> {
        let digest = Digest::of(schema.to_string().as_bytes());
        if let Some(known) = self.lock().get(&digest).and_then(Weak::upgrade) {
            return Ok(known);
        }
        // Not under the lock: it may take long. Two that are built at once do no harm.
        let built = Arc::new(Validator::new(schema, &self.limits)?.0);
        let mut by_digest = self.lock();
        if by_digest.len() >= KEPT {
            by_digest.retain(|_, validator| validator.strong_count() > 0);
        }
        by_digest.insert(digest, Arc::downgrade(&built));
        Ok(built)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Weak<Validator>>> {
        self.by_digest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_schema_is_compiled_once_while_it_is_used() {
        let validators = Validators::new(Limits::DEFAULT);
        let schema = json!({"type": "object", "required": ["a"]});
        let one = validators.of(&schema).expect("valid");
        assert!(Arc::ptr_eq(&one, &validators.of(&schema.clone()).expect("valid")));
        assert!(!Arc::ptr_eq(&one, &validators.of(&json!({"type": "object"})).expect("valid")));
        let weak = Arc::downgrade(&one);
        drop(one);
        assert!(weak.upgrade().is_none(), "nothing is kept for nobody");
        assert!(validators.of(&json!({"type": "objekt"})).is_err());
    }
}
