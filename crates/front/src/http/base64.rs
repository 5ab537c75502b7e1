//! Base64 with padding (RFC 4648, 4), written as bytes come, and read.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// How long so many bytes are in Base64.
pub(super) const fn base64_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(3) * 4
}

/// What is being written: bytes that do not make three yet wait for the next.
#[derive(Default)]
pub(super) struct Base64 {
    waiting: [u8; 2],
    count: usize,
}

impl Base64 {
    /// Writes these bytes, as far as three of them make four.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, mut bytes: &[u8]) {
        while self.count > 0
            && let Some((&byte, rest)) = bytes.split_first()
        {
            bytes = rest;
            if self.count == 2 {
                put_three(out, [self.waiting[0], self.waiting[1], byte]);
                self.count = 0;
            } else {
                self.waiting[1] = byte;
                self.count = 2;
            }
        }
        let (threes, rest) = bytes.as_chunks::<3>();
        threes.iter().for_each(|three| put_three(out, *three));
        for &byte in rest {
            self.waiting[self.count] = byte;
            self.count += 1;
        }
    }

    /// Writes what is left, and begins anew.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return;
        }
        let second = if count == 2 { self.waiting[1] } else { 0 };
        put_three(out, [self.waiting[0], second, 0]);
        let end = out.len();
        out[end - (3 - count)..].fill(b'=');
    }
}

fn put_three(out: &mut Vec<u8>, [one, two, three]: [u8; 3]) {
    let bits = u32::from(one) << 16 | u32::from(two) << 8 | u32::from(three);
    out.extend([18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift) as usize & 63]));
}

/// The bytes that a text stands for, if it is Base64 with padding: without line ends, and without bits that no byte has.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let (fours, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(fours.len() * 3);
    let Some((last, fours)) = fours.split_last() else { return Some(bytes) };
    for four in fours {
        bytes.extend(three_of(*four)?);
    }
    let padding = last.iter().rev().take_while(|&&digit| digit == b'=').count();
    let mut four = *last;
    four[4 - padding.min(2)..].fill(ALPHABET[0]);
    let three = three_of(four)?;
    let (meant, beyond) = three.split_at(3 - padding.min(2));
    bytes.extend_from_slice(meant);
    beyond.iter().all(|&byte| byte == 0).then_some(bytes)
}

fn three_of(four: [u8; 4]) -> Option<[u8; 3]> {
    let bits = four.iter().try_fold(0_u32, |bits, &digit| {
        let number = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some(bits << 6 | u32::from(number))
    })?;
    let [_, three @ ..] = bits.to_be_bytes();
    Some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_rfc_has() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, expected) in cases {
            assert_eq!(base64_bytes(plain.len() as u64), expected.len() as u64);
            for first in 0..=plain.len() {
                for second in first..=plain.len() {
                    let (mut out, mut base64) = (Vec::new(), Base64::default());
                    for part in [&plain[..first], &plain[first..second], &plain[second..]] {
                        base64.put(&mut out, part.as_bytes());
                    }
                    base64.finish(&mut out);
                    assert_eq!(str::from_utf8(&out), Ok(expected), "cut at {first} and {second}");
                }
            }
        }
        let (mut out, mut base64) = (Vec::new(), Base64::default());
        base64.put(&mut out, &[0xff, 0xef, 0xbe, 0xfb]);
        base64.finish(&mut out);
        assert_eq!(out, b"/+++".iter().copied().chain(*b"+w==").collect::<Vec<_>>());
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        for length in 0..=bytes.len() {
            let (mut text, mut base64) = (Vec::new(), Base64::default());
            base64.put(&mut text, &bytes[..length]);
            base64.finish(&mut text);
            assert_eq!(decoded(str::from_utf8(&text).expect("digits")).as_deref(), Some(&bytes[..length]));
        }
    }

    #[test]
    fn anything_else_is_not_read() {
        for text in [
            "Zg",
            "Zg=",
            "Zm8",
            "Zm9v=",
            "====",
            "Z===",
            "=Zg=",
            "Zg=v",
            "Zh==",
            "Zm9=",
            "Zm9v\n",
            "Zm 9",
            "Zm-_",
            "Zg==Zg==",
            "\u{e9}\u{e9}",
        ] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }
}
