/// The digits of an `i64`, and its sign.
const INTEGER_BYTES_MAX: usize = 20;

/// The integer that bytes are, as Redis reads it: no plus sign, no zeros in front, no spaces.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() < INTEGER_BYTES_MAX => {}
        _ => return None,
    }
    let mut number: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        // Towards the sign, so that the smallest number has room as well.
        let next = number.checked_mul(10)?;
        number = if is_negative { next.checked_sub(digit)? } else { next.checked_add(digit)? };
    }
    Some(number)
}

/// Writes an integer in decimal digits.
pub fn write_integer(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0; INTEGER_BYTES_MAX];
    let (mut at, mut left) = (digits.len(), number.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_read_as_strictly_as_redis_does() {
        for (text, number) in [("0", 0), ("7", 7), ("-1", -1), ("120", 120)] {
            assert_eq!(parse_integer(text.as_bytes()), Some(number), "{text}");
        }
        for text in ["", "-", "+1", "01", "-0", "00", " 1", "1 ", "1a", "0x1", "9223372036854775808", "--1"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_integer(b"-9223372036854775809"), None);
        assert_eq!(parse_integer(b"111111111111111111111111"), None);
    }

    proptest! {
        #[test]
        fn an_integer_is_read_as_it_is_written(number: i64) {
            let mut out = Vec::new();
            write_integer(&mut out, number);
            prop_assert_eq!(&out, &number.to_string().into_bytes());
            prop_assert_eq!(parse_integer(&out), Some(number));
        }
    }

    #[test]
    fn the_largest_and_the_smallest_integer_have_room() {
        for number in [i64::MIN, i64::MAX, 0] {
            let mut out = Vec::new();
            write_integer(&mut out, number);
            assert_eq!(parse_integer(&out), Some(number));
        }
    }
}
