/// Whether a pattern of Redis matches all of a text: `*`, `?`, `[a-c]`, `[^a]`, and `\` in front of one of them.
///
/// Takes time in proportion to the product of the two lengths at most, whatever the pattern: after a mismatch only the last `*`
/// is tried with more of the text, since what an earlier one takes more, the last one could have.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Behind the last star, and what of the text it has not taken yet.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, read));
            continue;
        }
        let Some(&byte) = text.get(read) else { return at == pattern.len() };
        match one(&pattern[at..], byte) {
            Some(length) => (at, read) = (at + length, read + 1),
            None => match &mut star {
                None => return false,
                Some((behind, from)) => {
                    *from += 1;
                    (at, read) = (*behind, *from);
                }
            },
        }
    }
}

/// How long the first part of a pattern is, if it matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => {
            let (is_in, length) = class(&pattern[1..], byte);
            is_in.then_some(1 + length)
        }
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [plain, ..] => (plain == byte).then_some(1),
    }
}

/// Whether a byte is in the class that a pattern begins with, and how long that is. One that does not end, ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = pattern.first() == Some(&b'^');
    let (mut at, mut is_in) = (usize::from(is_negated), false);
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                is_in |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                is_in |= plain == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_redis_do() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("user:*:name", "user:1:name", true),
            ("**", "", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    /// Redis 7.0 before 7.0.9 needed minutes for one of these (CVE-2022-36021).
    #[test]
    fn no_pattern_takes_long() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(4_000).as_bytes()));
    }
}
