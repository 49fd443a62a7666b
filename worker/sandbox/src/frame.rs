//! Reading and writing frames: a little-endian `u32` length, then one MessagePack value.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::protocol::MAX_FRAME_BYTES;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the other end closed the socket in the middle of a frame, or the socket failed: {0}")]
    Io(#[from] io::Error),
    #[error("a frame of {0} bytes is over the limit of {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    #[error("a frame cannot be written: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    #[error("a frame does not hold what it should: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
}

/// The frame that says `message`, length first.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; 4];
    rmp_serde::encode::write(&mut frame, message)?;
    let length = checked(frame.len() - 4)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

pub(crate) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), FrameError> {
    Ok(to.write_all(&encode(message)?)?)
}

/// The next frame; `None` when the other end has closed the socket between two frames.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut length = [0; 4];
    if from.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let mut body = vec![0; checked(u32::from_le_bytes(length) as usize)? as usize];
    from.read_exact(&mut body)?;
    Ok(Some(rmp_serde::from_slice(&body)?))
}

/// As [`read`]. Not safe to cancel: a frame that was half read is lost.
pub(crate) async fn read_async<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, FrameError> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let mut body = vec![0; checked(u32::from_le_bytes(length) as usize)? as usize];
    from.read_exact(&mut body).await?;
    Ok(Some(rmp_serde::from_slice(&body)?))
}

fn checked(bytes: usize) -> Result<u32, FrameError> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= MAX_FRAME_BYTES => Ok(length),
        _ => Err(FrameError::TooLarge(bytes)),
    }
}
