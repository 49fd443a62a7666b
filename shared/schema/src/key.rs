//! Which keys of objects are names that a programmer gave, and which are data.

/// Longer names are rare, longer data is not.
const LONGEST: usize = 48;

/// Could `key` be data: an id, an e-mail address, a date, a number, a file, somebody's name? When in
/// doubt it is: a type that says less does no harm, a stored key of a customer does.
pub(crate) fn is_data(key: &str) -> bool {
    let name = key.strip_prefix(['$', '@', '_']).unwrap_or(key);
    let first = name.bytes().next();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$' | b':');
    !first.is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        || key.len() > LONGEST
        || !name.bytes().all(is_name)
        || looks_random(name)
}

/// Words with several digits that programmers use.
const NUMBERED: [&str; 26] = [
    "base32", "base64", "ec2", "fp16", "fp32", "h264", "h265", "http2", "i18n", "int16", "int32", "int64", "ipv4",
    "ipv6", "iso3166", "iso8601", "k8s", "l10n", "oauth2", "p50", "p90", "p95", "p99", "utf16", "utf8", "x509",
];

/// Ids (`cus_9s6XKzkNRiz8i3`, `user_42`, `T024BE7LD`, `deadbeef`) mix digits and letters, or are hexadecimal, or
/// go on and on; names (`address1`, `sha256`, `x509_cert`, `base64Data`) have one digit, or a known number.
fn looks_random(name: &str) -> bool {
    words(name).any(|word| {
        let lower = word.to_ascii_lowercase();
        let digits = lower.bytes().filter(u8::is_ascii_digit).count();
        let known = NUMBERED.contains(&lower.as_str())
            || ["sha", "md", "crc", "uint"]
                .iter()
                .any(|hash| lower.strip_prefix(hash).is_some_and(|rest| rest.len() == digits));
        let hexadecimal = lower.len() >= 8 && lower.bytes().all(|b| b.is_ascii_hexdigit());
        let shouted = word.len() >= 12 && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        (digits > 1 && !known) || hexadecimal || shouted || word.len() > LONGEST_WORD
    })
}

/// A word of a name is rarely longer.
const LONGEST_WORD: usize = 20;

/// `createdAt` and `created_at` are two words; digits belong to the word before them.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', '-', '$', ':']).flat_map(|part| {
        let bytes = part.as_bytes();
        let humps =
            (1..bytes.len()).filter(move |at| bytes[*at].is_ascii_uppercase() && !bytes[at - 1].is_ascii_uppercase());
        let ends: Vec<usize> = humps.chain([part.len()]).collect();
        let mut start = 0;
        ends.into_iter().map(move |end| {
            let word = &part[start..end];
            start = end;
            word
        })
    })
}

#[cfg(test)]
mod tests {
    use super::is_data;

    #[test]
    fn names_are_kept_and_data_is_not() {
        for name in [
            "id",
            "created_at",
            "createdAt",
            "address1",
            "line_2",
            "sha256",
            "x509_cert",
            "base64Data",
            "utf8",
            "@type",
            "$schema",
            "_links",
            "x-request-id",
            "xmlns:dc",
            "iso8601",
            "__typename",
            "http2",
            "S3Bucket",
            "is2faEnabled",
            "h264",
        ] {
            assert!(!is_data(name), "{name}");
        }
        for data in [
            "",
            "1",
            "42",
            "2026-12-01",
            "ada@example.com",
            "550e8400-e29b-41d4-a716-446655440000",
            "cus_9s6XKzkNRiz8i3",
            "T024BE7LD",
            "a3f9c0d2",
            "src/main.rs",
            "example.com",
            "Ada Lovelace",
            "José",
            "+4930123456",
            "order_100234",
            "0xdeadbeef",
            "usr:90210x7",
            &"x".repeat(49),
        ] {
            assert!(is_data(data), "{data}");
        }
    }
}
