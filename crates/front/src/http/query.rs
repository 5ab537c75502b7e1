use std::borrow::Cow;

use ladoga_model::Quote;
use memchr::{memchr, memchr2};

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// A percent sign without two hexadecimal digits.
    #[error("{found} is not a percent sequence; expected % and two hexadecimal digits")]
    Percent {
        /// What is there instead.
        found: Quote,
    },
    /// A parameter that may be given once is given again.
    #[error("the parameter {name} is given more than once")]
    Repeated {
        /// Which one.
        name: &'static str,
    },
}

/// The values of the parameters `names`, in their order; other parameters are ignored.
///
/// Decoded according to RFC 3986: a plus is a plus. The whole query has to be well-formed, including the parameters that are
/// ignored.
pub(crate) fn parameters<'q, const N: usize>(
    query: &'q [u8],
    names: [&'static str; N],
) -> Result<[Option<Cow<'q, [u8]>>; N], QueryError> {
    let mut values = [const { None }; N];
    let is_plain = !query.contains(&b'%');
    for pair in query.split(|&byte| byte == b'&') {
        let name_bytes = memchr(b'=', pair).unwrap_or(pair.len());
        let (name, value) = (&pair[..name_bytes], pair.get(name_bytes + 1..).unwrap_or(b""));
        let (name, value) = if is_plain {
            (Cow::Borrowed(name), Cow::Borrowed(value))
        } else {
            (decode(name)?, decode(value)?)
        };
        if let Some(index) = names.iter().position(|known| known.as_bytes() == &*name)
            && values[index].replace(value).is_some()
        {
            return Err(QueryError::Repeated { name: names[index] });
        }
    }
    Ok(values)
}

fn decode(bytes: &[u8]) -> Result<Cow<'_, [u8]>, QueryError> {
    let Some(first) = bytes.iter().position(|&byte| byte == b'%') else {
        return Ok(Cow::Borrowed(bytes));
    };
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let [byte, tail @ ..] = rest {
        if *byte == b'%' {
            let (value, after) = percent_sequence(tail).ok_or_else(|| bad_sequence(rest))?;
            decoded.push(value);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = tail;
        }
    }
    Ok(Cow::Owned(decoded))
}

fn percent_sequence(after_percent: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = after_percent else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some(((digit(*high)? << 4 | digit(*low)?) as u8, rest))
}

fn bad_sequence(rest: &[u8]) -> QueryError {
    QueryError::Percent { found: Quote::of(&rest[..rest.len().min(3)]) }
}

/// The key of a query that says nothing else, and has nothing in it to be decoded, as most do.
pub(super) fn lone_key(query: &[u8]) -> Option<&[u8]> {
    let key = query.strip_prefix(b"id=")?;
    memchr2(b'&', b'%', key).is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(query: &str) -> Result<Option<Vec<u8>>, QueryError> {
        let [id] = parameters(query.as_bytes(), ["id"])?;
        Ok(id.map(Cow::into_owned))
    }

    #[test]
    fn finds_a_parameter_wherever_it_is() {
        for query in ["id=k", "a=b&id=k", "id=k&a=b", "&&id=k&", "i%64=%6b", "a&id=k"] {
            assert_eq!(id(query), Ok(Some(b"k".to_vec())), "{query}");
        }
        for query in ["", "ID=k", "id2=k", "xid=k"] {
            assert_eq!(id(query), Ok(None), "{query}");
        }
    }

    #[test]
    fn an_empty_value_is_not_an_absent_one() {
        assert_eq!(id("id="), Ok(Some(Vec::new())));
        assert_eq!(id("id"), Ok(Some(Vec::new())));
    }

    #[test]
    fn keeps_what_is_no_percent_sequence_as_it_is() {
        assert_eq!(id("id=a+b"), Ok(Some(b"a+b".to_vec())));
        assert_eq!(id("id=a=b"), Ok(Some(b"a=b".to_vec())));
        assert_eq!(id("id=a%2Bb+%3D%26"), Ok(Some(b"a+b+=&".to_vec())));
        assert_eq!(id("id=%00%ff%Fe"), Ok(Some(vec![0, 0xff, 0xfe])));
    }

    #[test]
    fn names_a_sequence_that_is_none() {
        for (query, found) in [
            ("id=%", "'%'"),
            ("id=a%2", "'%2'"),
            ("id=%zz1", "'%zz'"),
            ("id=%+1", "'%+1'"),
            ("id=k&other=%4g", "'%4g'"),
            ("id=%\u{e9}", "'%\\xc3\\xa9'"),
        ] {
            let error = id(query).expect_err(query);
            assert!(error.to_string().starts_with(&format!("{found} is not a percent")), "{error}");
        }
    }

    #[test]
    fn refuses_a_parameter_given_twice() {
        assert_eq!(id("id=a&id=a"), Err(QueryError::Repeated { name: "id" }));
        assert_eq!(id("x=a&x=a&id=k"), Ok(Some(b"k".to_vec())));
    }
}
