use std::path::Path;

const SCHEME: &str = "s3:";

/// A bucket, and what the keys of its objects begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the bucket.
    pub bucket: String,
    /// Without slashes at its ends; may be empty.
    pub prefix: String,
}

/// Why a path is no place in a bucket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPlace(String);

impl Place {
    /// Whether a path means a bucket.
    pub fn is_meant_by(path: &Path) -> bool {
        path.starts_with(SCHEME)
    }

    /// Reads `s3://BUCKET/PREFIX`.
    pub fn parse(path: &Path) -> Result<Place, BadPlace> {
        let text = path.to_str().and_then(|text| text.strip_prefix("s3://"));
        let wrong = || BadPlace(format!("'{}' is no bucket, expected s3://BUCKET/PREFIX", path.display()));
        let (bucket, prefix) =
            text.map(|text| text.split_once('/').unwrap_or((text, ""))).ok_or_else(wrong)?;
        let is_bucket_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if bucket.is_empty() || !bucket.bytes().all(is_bucket_char) || bucket.starts_with('.') {
            return Err(wrong());
        }
        let prefix = prefix.trim_end_matches('/');
        // Servers and proxies make other keys of such names.
        let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
        if !prefix.is_empty() && !prefix.split('/').all(is_plain) {
            return Err(BadPlace(format!("'{}' has a part that is no name", path.display())));
        }
        Ok(Place { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_and_a_prefix_are_read() {
        for (text, bucket, prefix) in [
            ("s3://bucket", "bucket", ""),
            ("s3://bucket/", "bucket", ""),
            ("s3://my.bucket-1/backups", "my.bucket-1", "backups"),
            ("s3://bucket/a/b c/", "bucket", "a/b c"),
        ] {
            let place = Place { bucket: bucket.to_owned(), prefix: prefix.to_owned() };
            assert_eq!(Place::parse(Path::new(text)), Ok(place), "{text}");
            assert!(Place::is_meant_by(Path::new(text)));
        }
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        for text in [
            "s3://",
            "s3:///a",
            "s3://b/../c",
            "s3://b/a//c",
            "s3://b/./c",
            "s3://a b",
            "s3:b",
            "s3://..",
            "s3://b/a\nb",
        ] {
            assert!(Place::parse(Path::new(text)).is_err(), "{text}");
        }
        for text in ["/mnt/backups", "backups", "s3", "./s3:/b"] {
            assert!(!Place::is_meant_by(Path::new(text)), "{text}");
        }
    }
}
