use rewind_model::{Digest, RunId};

/// Numbers that look random and are a function of the run's id and of how many were taken before:
/// SHA-256 over the id and a counter.
#[derive(Debug)]
pub(crate) struct Random {
    run: RunId,
    blocks: u64,
    block: [u8; 32],
    used: usize,
}

impl Random {
    pub(crate) fn of_run(run: &RunId) -> Self {
        Self { run: run.clone(), blocks: 0, block: [0; 32], used: 32 }
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.used == self.block.len() {
                let counter = self.blocks.to_le_bytes();
                self.block =
                    *Digest::of_parts([b"random".as_slice(), self.run.as_str().as_bytes(), &counter]).as_bytes();
                self.blocks += 1;
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }

    /// At least 0 and below 1, with 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID. Source: RFC 9562, 5.4.
    pub(crate) fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_id_alone_decides() {
        let run: RunId = "run_00000000000000000000000000000001".parse().expect("valid");
        let other: RunId = "run_00000000000000000000000000000002".parse().expect("valid");
        let mut random = Random::of_run(&run);
        let uuid = random.uuid();
        assert_eq!(uuid, Random::of_run(&run).uuid());
        assert_ne!(uuid, Random::of_run(&other).uuid());
        assert_ne!(uuid, random.uuid());
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        let mean = (0..1_000).map(|_| random.unit()).sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
