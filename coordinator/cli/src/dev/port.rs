use std::net::{SocketAddr, TcpListener};

use super::DevError;

/// Below the ports that Linux gives to outgoing connections (from 32768): while nats-server restarts, its
/// clients try its port again and again, and one that was given that very port would connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
const TRIES: u16 = 200;

/// The port of `address` if it is free; for port 0 one that is. A part gets the same one at each restart.
///
/// # Errors
/// When it is in use or may not be bound.
pub(super) fn claim(address: SocketAddr) -> Result<u16, DevError> {
    if address.port() != 0 {
        return bind(address);
    }
    let mut random = [0u8; 2];
    getrandom::fill(&mut random).expect("the operating system provides randomness");
    let start = u16::from_ne_bytes(random) % COUNT;
    let candidates = (0..TRIES).map(|n| FIRST + (start + n) % COUNT);
    candidates
        .filter_map(|port| bind(SocketAddr::new(address.ip(), port)).ok())
        .next()
        .map_or_else(|| bind(address), Ok)
}

fn bind(address: SocketAddr) -> Result<u16, DevError> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|source| DevError::Listen { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_refused_and_zero_picks_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("address");
        claim(taken).expect("free since the listener is gone");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        assert!(matches!(claim(listener.local_addr().expect("address")), Err(DevError::Listen { .. })));
        let port = claim("127.0.0.1:0".parse().expect("address")).expect("free");
        assert!((FIRST..FIRST + COUNT).contains(&port), "{port}");
    }
}
