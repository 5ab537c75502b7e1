use rand::{RngExt, SeedableRng};

use super::random::{Random, mix};

/// Values are windows into so many bytes of noise, which do not compress.
const NOISE_BYTES: usize = 256 * 1024;

/// Writes requests. What never changes is made once.
#[derive(Debug, Clone)]
pub(crate) struct Renderer {
    /// Everything after the target, up to the end of the head or to the length of the body.
    tail: Vec<u8>,
    /// None for `value0`, `value1`, …
    value_bytes: Option<usize>,
    noise: Vec<u8>,
}

impl Renderer {
    /// `headers` as the person gave them; a `Host` among them wins.
    pub(crate) fn new(host: &str, headers: &[(String, String)], value_bytes: Option<usize>) -> Self {
        let mut tail = b" HTTP/1.1\r\n".to_vec();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            tail.extend_from_slice(format!("Host: {host}\r\n").as_bytes());
        }
        for (name, value) in headers {
            tail.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let mut random = Random::seed_from_u64(1);
        let noise_bytes = if value_bytes.is_some() { NOISE_BYTES } else { 0 };
        let noise = (0..noise_bytes).map(|_| b'!' + random.random_range(0..94_u8)).collect();
        Self { tail, value_bytes, noise }
    }

    /// `METHOD TARGET`, whatever they are, without a body.
    pub(crate) fn plain(&self, method: &str, target: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        self.end(out);
    }

    pub(super) fn get(&self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET /v0/entity?id=key");
        push_number(key, out);
        self.end(out);
    }

    pub(super) fn delete(&self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"DELETE /v0/entity?id=key");
        push_number(key, out);
        self.end(out);
    }

    pub(crate) fn put(&self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUT /v0/entity?id=key");
        push_number(key, out);
        out.extend_from_slice(&self.tail);
        out.extend_from_slice(b"Content-Length: ");
        match self.value_bytes {
            None => {
                push_number((5 + digits(key)) as u64, out);
                out.extend_from_slice(b"\r\n\r\nvalue");
                push_number(key, out);
            }
            Some(bytes) => {
                push_number(bytes as u64, out);
                out.extend_from_slice(b"\r\n\r\n");
                self.push_noise(key, bytes, out);
            }
        }
    }

    /// All keys whose number begins with `prefix`: `:` comes after `9`.
    pub(super) fn range(&self, prefix: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET /v0/entities?start=key");
        push_number(prefix, out);
        out.extend_from_slice(b"&end=key");
        push_number(prefix, out);
        out.push(b':');
        self.end(out);
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tail);
        out.extend_from_slice(b"\r\n");
    }

    fn push_noise(&self, key: u64, bytes: usize, out: &mut Vec<u8>) {
        let mut from = mix(key) as usize % self.noise.len();
        let end = out.len() + bytes;
        while out.len() < end {
            let piece = (self.noise.len() - from).min(end - out.len());
            out.extend_from_slice(&self.noise[from..from + piece]);
            from = 0;
        }
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn push_number(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let count = digits(number);
    out.resize(start + count, b'0');
    let mut rest = number;
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Batch;

    fn text(render: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        render(&mut out);
        assert_eq!(Batch::parse(&out).map(|batch| batch.requests), Ok(1));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_whole() {
        let renderer = Renderer::new("h:1", &[("X".to_owned(), "y".to_owned())], None);
        let tail = " HTTP/1.1\r\nHost: h:1\r\nX: y\r\n";
        assert_eq!(text(|out| renderer.get(0, out)), format!("GET /v0/entity?id=key0{tail}\r\n"));
        assert_eq!(text(|out| renderer.delete(10, out)), format!("DELETE /v0/entity?id=key10{tail}\r\n"));
        let put = text(|out| renderer.put(123, out));
        assert_eq!(put, format!("PUT /v0/entity?id=key123{tail}Content-Length: 8\r\n\r\nvalue123"));
        let range = text(|out| renderer.range(12, out));
        assert_eq!(range, format!("GET /v0/entities?start=key12&end=key12:{tail}\r\n"));
    }

    #[test]
    fn values_have_their_size_and_differ() {
        let renderer = Renderer::new("h", &[("host".to_owned(), "other".to_owned())], Some(600_000));
        let (one, two) = (text(|out| renderer.put(1, out)), text(|out| renderer.put(2, out)));
        assert!(
            one.starts_with(
                "PUT /v0/entity?id=key1 HTTP/1.1\r\nhost: other\r\nContent-Length: 600000\r\n\r\n"
            )
        );
        assert_ne!(one[100..], two[100..]);
        let empty = Renderer::new("h", &[], Some(0));
        assert!(text(|out| empty.put(1, out)).ends_with("Content-Length: 0\r\n\r\n"));
    }
}
