//! Stack traces, from the emitted module back to the TypeScript that the user wrote.

use rewind_bus::catalog::CompiledScript;
use sourcemap::SourceMap;

/// Name of the emitted module in the sandbox.
const MODULE: &str = "script.js";
/// Frames that a person reads.
const FRAMES: usize = 20;

/// `stack` with the positions of the script's own frames in `script.ts`; frames of the sandbox's own
/// code are left out.
pub(crate) fn map(script: &CompiledScript, stack: &str) -> String {
    let map = SourceMap::from_slice(script.source_map.as_bytes()).ok();
    let frames = stack.lines().filter(|line| line.contains(MODULE)).take(FRAMES);
    frames.map(|line| map_line(map.as_ref(), line)).collect::<Vec<_>>().join("\n")
}

fn map_line(map: Option<&SourceMap>, line: &str) -> String {
    let mapped = || {
        let (before, place) = line.split_once(MODULE)?;
        let place = place.strip_prefix(':')?;
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (row, rest) = place.split_at(digits(place));
        let rest = rest.strip_prefix(':')?;
        let (column, after) = rest.split_at(digits(rest));
        let (row, column): (u32, u32) = (row.parse().ok()?, column.parse().ok()?);
        let token = map?.lookup_token(row.checked_sub(1)?, column.checked_sub(1)?)?;
        Some(format!("{before}script.ts:{}:{}{after}", token.get_src_line() + 1, token.get_src_col() + 1))
    };
    mapped().unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_typescript() {
        // One segment: line 1, column 0 of the module is line 3, column 5 of the source.
        let script = CompiledScript {
            javascript: String::new(),
            source: String::new(),
            source_map: r#"{"version":3,"sources":["script.ts"],"names":[],"mappings":"AAEK"}"#.into(),
            warnings: Vec::new(),
        };
        let stack = "    at main (script.js:1:4)\n    at call (rewind:prelude:10:2)";
        assert_eq!(map(&script, stack), "    at main (script.ts:3:6)");
    }
}
