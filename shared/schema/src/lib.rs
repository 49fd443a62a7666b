//! JSON Schema, seen from both sides: as TypeScript for the model and the type-checker
//! ([`render`]), and as validators for what a script passes and a tool returns ([`Validator`]).
//!
//! Pure: nothing here does IO, fetches a reference, or trusts a server. Whatever a schema says, the
//! declarations compile; a schema that cannot be used is a [`SchemaError`] with the reason.
//!
//! ```text
//! schema ─ document (resolves $ref) ─ lower (object, array, choice, literal: what keywords say)
//!        ─ ty (sets of values) ─ meet, negate, evaluated (what several say together)
//!        ─ alias, exclusive, share (named, told apart, said once) ─ print ─ declarations
//!        └ check (bounds) ─ prepare (what real servers send) ─ validator ─ violation
//! ```

mod alias;
mod array;
mod check;
mod choice;
mod comment;
mod declarations;
mod difference;
mod doc;
mod document;
mod effort;
mod error;
mod evaluated;
mod exclusive;
mod hint;
mod index;
mod key;
mod keyword;
mod kinds;
mod learned;
mod literal;
mod lower;
mod meet;
mod name;
mod negate;
mod normalize;
mod object;
mod pin;
mod prepare;
mod print;
mod shape;
mod share;
mod signature;
mod ty;
mod uri;
mod validator;
mod violation;

pub use check::check_schema;
pub use declarations::{is_export_name, render, render_strict, render_with};
pub use difference::{difference, lost};
pub use error::SchemaError;
pub use hint::{hint, nearest};
pub use normalize::normalize;
pub use pin::{Quarantine, pin_tools};
pub use shape::{Observations, Observed};
pub use signature::signature;
pub use validator::Validator;
pub use violation::Violation;

/// The ambient globals of a script, for checking it with `lib: ["ES2023"]` and without the DOM.
pub const ENVIRONMENT: &str = include_str!("environment.d.ts");
