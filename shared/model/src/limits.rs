/// Bounds on what a user or a server controls (bytes, counts).
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub script_bytes: usize,
    pub argument_bytes: usize,
    pub result_bytes: usize,
    /// Nesting of a result: a script's engine recurses over it, on a stack of its own limit.
    pub result_depth: usize,
    pub calls: u32,
    pub calls_in_flight: usize,
    pub schema_bytes: usize,
    pub schema_depth: usize,
    /// Lines of `console` that a run's journal keeps; later ones are dropped, and counted.
    pub log_lines: u32,
    /// Bytes of one line of `console`; the rest of it is cut.
    pub log_line_bytes: usize,
    /// A payload over this is kept as a blob, and the record holds its digest.
    pub inline_bytes: usize,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        script_bytes: 256 << 10,
        argument_bytes: 1 << 20,
        result_bytes: 16 << 20,
        result_depth: 512,
        calls: 10_000,
        calls_in_flight: 100,
        schema_bytes: 256 << 10,
        schema_depth: 64,
        log_lines: 1_000,
        log_line_bytes: 8 << 10,
        inline_bytes: 256 << 10,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
