use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The lines of a stream. One that is too long comes in pieces, so that none fills the memory.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    piece: Vec<u8>,
    /// The piece before this one did not end its line.
    inside: bool,
}

/// A line, if it both begins and ends, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a [u8],
    pub(super) begins: bool,
    pub(super) ends: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK, stream), piece: Vec::new(), inside: false }
    }

    /// The next piece, which is a whole line if that has at most about `longest` bytes; `None` at the
    /// end of the stream.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub(super) async fn next(&mut self, longest: impl Fn() -> usize) -> io::Result<Option<Piece<'_>>> {
        self.piece.clear();
        // One large answer must not hold its memory for ever.
        self.piece.shrink_to(CHUNK);
        let ends = loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                if self.piece.is_empty() {
                    return Ok(None);
                }
                break true;
            }
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let taken = newline.unwrap_or(bytes.len());
            self.piece.extend_from_slice(&bytes[..taken]);
            self.reader.consume(taken + usize::from(newline.is_some()));
            if newline.is_some() {
                break true;
            }
            if self.inside || self.piece.len() > longest() {
                break false;
            }
        };
        let begins = !std::mem::replace(&mut self.inside, !ends);
        Ok(Some(Piece { text: &self.piece, begins, ends }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pieces(text: &[u8], longest: usize) -> Vec<(usize, bool, bool)> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some(piece) = lines.next(|| longest).await.expect("readable") {
            all.push((piece.text.len(), piece.begins, piece.ends));
        }
        all
    }

    #[tokio::test]
    async fn lines_are_whole_and_the_last_one_needs_no_end() {
        assert_eq!(pieces(b"ab\n\ncde", 100).await, [(2, true, true), (0, true, true), (3, true, true)]);
        assert_eq!(pieces(b"", 100).await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_comes_in_pieces() {
        let text = [vec![b'x'; 5 * CHUNK + 7], b"\nshort\n".to_vec()].concat();
        let pieces = pieces(&text, 2 * CHUNK).await;
        let x = 3 * CHUNK;
        assert_eq!(
            pieces,
            [(x, true, false), (CHUNK, false, false), (CHUNK, false, false), (7, false, true), (5, true, true)]
        );
    }
}
