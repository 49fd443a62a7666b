/// Finds the member `id` of a JSON object that is too long to be kept, from its pieces.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The key or value of the object's own that is being read, or its beginning.
    token: Vec<u8>,
    /// The token is the value of `id`.
    after_id: bool,
    id: Option<String>,
}

impl IdScan {
    /// Bytes of an id, and more than the key has.
    const LONGEST_TOKEN: usize = 128;

    pub(super) fn feed(&mut self, piece: &[u8]) {
        piece.iter().for_each(|byte| self.byte(*byte));
    }

    /// The JSON text of the id.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.value_ends();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => self.value_ends(),
            b':' if self.depth == 1 => {
                self.after_id = self.token == b"\"id\"";
                self.token.clear();
            }
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < Self::LONGEST_TOKEN {
            self.token.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if std::mem::take(&mut self.after_id) {
            self.id = String::from_utf8(std::mem::take(&mut self.token)).ok();
        }
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<String> {
        let mut scan = IdScan::default();
        text.as_bytes().chunks(3).for_each(|piece| scan.feed(piece));
        scan.id().map(str::to_owned)
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_and_nowhere_else() {
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#).as_deref(), Some("7"));
        assert_eq!(
            id(r#"{"result":{"id":8,"a":["\"id\":9}",{"id":1}]},"jsonrpc":"2.0", "id" : "x\"7" }"#).as_deref(),
            Some(r#""x\"7""#)
        );
        assert_eq!(id(r#"{"result":"\\","id":5}"#).as_deref(), Some("5"));
        for none in [r#"{"result":{"id":8}}"#, r#"[{"id":8}]"#, "xxxx", r#"{"a":"\"id\":7"}"#, ""] {
            assert_eq!(id(none), None, "{none}");
        }
    }
}
