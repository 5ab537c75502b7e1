/// Where a request is in a trace that is recorded: by the ids of W3C Trace Context. A request whose trace is not recorded has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; not all zeros.
    pub trace_id: [u8; 16],
    /// The span that what is done next is a part of; not all zeros.
    pub span_id: [u8; 8],
}

/// What a client says about the trace that its request is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceParent {
    /// It is recorded.
    Sampled(TraceContext),
    /// Nobody records it.
    Unsampled,
}

/// `00-<32 digits>-<16 digits>-<2 digits>`.
const VALUE_BYTES: usize = 55;
/// A later version may append something. More than this is not looked at.
const VALUE_BYTES_MAX: usize = 256;

impl TraceParent {
    /// Understands the value of a `traceparent`; `None` if it is malformed, which a server ignores.
    pub fn parse(value: &[u8]) -> Option<TraceParent> {
        let (known, rest) = value.split_at_checked(VALUE_BYTES)?;
        let [version] = hex(&known[..2])?;
        let is_of_version = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || (rest[0] == b'-' && value.len() <= VALUE_BYTES_MAX),
        };
        if !is_of_version || [2, 35, 52].iter().any(|&place| known[place] != b'-') {
            return None;
        }
        let (trace_id, span_id) = (hex::<16>(&known[3..35])?, hex::<8>(&known[36..52])?);
        let [flags] = hex(&known[53..])?;
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        let is_sampled = flags & 1 != 0;
        Some(if is_sampled {
            TraceParent::Sampled(TraceContext { trace_id, span_id })
        } else {
            TraceParent::Unsampled
        })
    }
}

/// Bytes out of twice as many digits, small letters only.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_understood() {
        let Some(TraceParent::Sampled(context)) = TraceParent::parse(GOOD.as_bytes()) else {
            panic!("sampled")
        };
        assert_eq!((context.trace_id[0], context.trace_id[15]), (0x0a, 0x9c));
        assert_eq!((context.span_id[0], context.span_id[7]), (0xb7, 0x31));
        let unsampled = GOOD.replace("-01", "-00");
        assert_eq!(TraceParent::parse(unsampled.as_bytes()), Some(TraceParent::Unsampled));
        // Other flags say nothing about that.
        assert_eq!(TraceParent::parse(GOOD.replace("-01", "-02").as_bytes()), Some(TraceParent::Unsampled));
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = GOOD.replacen("00", "cc", 1);
        for value in [later.clone(), format!("{later}-what-comes"), format!("{later}-")] {
            assert!(matches!(TraceParent::parse(value.as_bytes()), Some(TraceParent::Sampled(_))), "{value}");
        }
        for value in
            [format!("{later}."), format!("{later}-{}", "x".repeat(VALUE_BYTES_MAX)), format!("{GOOD}-x")]
        {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn what_is_malformed_is_none_however_it_is() {
        for cut in 0..GOOD.len() {
            assert_eq!(TraceParent::parse(&GOOD.as_bytes()[..cut]), None, "cut at {cut}");
        }
        for place in 0..GOOD.len() {
            for byte in *b"gG-F\0 \xff" {
                let mut value = GOOD.as_bytes().to_vec();
                if value[place] != byte {
                    value[place] = byte;
                    assert_eq!(TraceParent::parse(&value), None, "{byte} at {place}");
                }
            }
        }
        let zeros = |part: &str| GOOD.replace(part, &"0".repeat(part.len()));
        for value in [
            zeros("0af7651916cd43dd8448eb211c80319c"),
            zeros("b7ad6b7169203331"),
            GOOD.replacen("00", "ff", 1),
        ] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
    }
}
