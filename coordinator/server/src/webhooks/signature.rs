//! Signatures of the Standard Webhooks specification, version 1 (symmetric).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use rewind_secrets::Secret;
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Bytes of a key, as the specification wants it.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;
/// While keys change there are two.
const MOST: usize = 8;

/// The keys with which requests are signed, each of them with all.
#[derive(Debug, Clone)]
pub(crate) struct SigningKeys(Vec<Secret<Vec<u8>>>);

/// Repeats nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write whsec_ and 24 to 64 bytes in base64; while keys change, several with blanks between")]
pub(crate) struct KeyError;

impl SigningKeys {
    /// # Errors
    /// When a key is not of the specification's form, or there is none, or there are too many.
    pub(crate) fn parse(text: &Secret<String>) -> Result<Self, KeyError> {
        let keys = text.expose().split_whitespace().map(|key| {
            let bytes = key.strip_prefix(PREFIX).and_then(|digits| STANDARD.decode(digits).ok());
            bytes.filter(|bytes| LENGTHS.contains(&bytes.len())).map(Secret::new).ok_or(KeyError)
        });
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        if (1..=MOST).contains(&keys.len()) { Ok(Self(keys)) } else { Err(KeyError) }
    }

    /// The value of `webhook-signature`. `timestamp` in seconds since 1970, of this attempt.
    pub(crate) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signatures: Vec<String> = self.0.iter().map(|key| sign(key, id, timestamp, body)).collect();
        signatures.join(" ")
    }
}

fn sign(key: &Secret<Vec<u8>>, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose()).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<SigningKeys, KeyError> {
        SigningKeys::parse(&Secret::new(text.to_owned()))
    }

    /// The example of the reference implementations.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let signed = keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key").sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_keys_change_both_sign() {
        let (one, two) = (format!("whsec_{}", STANDARD.encode([1; 24])), format!("whsec_{}", STANDARD.encode([2; 64])));
        let sign = |text: &str| keys(text).expect("keys").sign("evt_1", 1, b"{}");
        assert_eq!(sign(&format!("{one} {two}")), format!("{} {}", sign(&one), sign(&two)));
    }

    #[test]
    fn a_key_of_another_form_is_refused_without_being_shown() {
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_s3cret!"] {
            assert_eq!(keys(bad).map(drop), Err(KeyError), "{bad}");
        }
        let key = keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        assert_eq!(format!("{key:?}"), "SigningKeys([(secret)])");
    }
}
