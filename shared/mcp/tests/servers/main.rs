//! The client against real servers of both eras, and against one that misbehaves.

mod calls;
mod listing;
mod peer;
mod stdio;
