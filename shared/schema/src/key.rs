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

/// Ids (`cus_9s6XKzkNRiz8i3`, `T024BE7LD`, `a3f9c0d2`) mix digits and letters; names (`address1`, `sha256`,
/// `x509_cert`, `base64Data`) have one number, if any.
fn looks_random(name: &str) -> bool {
    name.split(['_', '-', '$', ':']).any(|word| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let kinds: Vec<bool> = word.bytes().map(|b| b.is_ascii_digit()).collect();
        let changes = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
        digits > 4 || changes > 2 || (digits > 0 && digits < word.len() && kinds.first() == Some(&true) && digits > 2)
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
