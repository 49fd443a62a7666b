/// Why a schema cannot be used. A tool with such a schema is left out of its toolset, with this
/// text as the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("a JSON Schema is an object or a boolean, and this is {got}")]
    NotASchema { got: &'static str },
    #[error("the schema has {bytes} bytes of JSON, over the limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error("the schema nests deeper than the limit of {limit} levels, its references followed")]
    TooDeep { limit: usize },
    /// A small schema can ask for very much work: each of its definitions uses the next one twice.
    #[error("checking one value against the schema could take over {limit} steps: its references multiply")]
    TooComplex { limit: u64 },
    /// JSON Schema leaves open what such a schema means (2020-12 core, 9.4.1), and validators differ.
    #[error("the schema at {path} comes back to itself for the same value: its references go round in a circle")]
    Circular { path: String },
    #[error("the schema is invalid at {path}: {reason}")]
    Invalid { path: String, reason: String },
}
