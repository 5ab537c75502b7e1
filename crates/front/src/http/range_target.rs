use std::borrow::Cow;

use bytes::Bytes;
use ladoga_model::{Quote, Replicas};
use ladoga_service::{KeyRange, KeySpan, Scope};

use super::query::parameters;
use super::target::{TargetError, key};

/// Which entities a range request is about, and what of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTarget {
    /// From where on, up to where, and whose.
    pub(crate) range: KeyRange,
    /// How many nodes the entities live on, and how many of these have to answer, where it is those of all nodes.
    pub(crate) replicas: Replicas,
    /// Whether the values are wanted, and not only the keys.
    pub(crate) has_values: bool,
    /// Whether only the number of entities is wanted.
    pub(crate) is_count: bool,
}

impl RangeTarget {
    /// Reads a query, for a cluster of `nodes`.
    pub(crate) fn parse(query: &[u8], nodes: u32) -> Result<RangeTarget, TargetError> {
        let names = ["start", "end", "prefix", "after", "limit", "reverse", "values", "count", "scope"];
        let [start, end, prefix, after, limit, reverse, values, count, scope] = parameters(query, names)?;
        let [replicas, ack, from] = parameters(query, ["replicas", "ack", "from"])?;
        let scope = self::scope(scope.as_deref())?;
        let is_reverse = flag("reverse", reverse.as_deref())?.unwrap_or(false);
        let bounds = Bounds {
            start: bound("start", start)?,
            end: bound("end", end)?,
            prefix: bound("prefix", prefix)?,
            after: bound("after", after)?,
        };
        let limit = limit.map(|limit| parse_limit(&limit)).transpose()?;
        Ok(RangeTarget {
            range: KeyRange {
                span: bounds.span(is_reverse).map_err(|_| TargetError::NoStart)?,
                limit,
                scope,
            },
            replicas: Replicas::parse(replicas.as_deref(), ack.as_deref(), from.as_deref(), nodes)?,
            has_values: flag("values", values.as_deref())?.unwrap_or(true),
            is_count: flag("count", count.as_deref())?.unwrap_or(false),
        })
    }
}

pub(super) fn scope(text: Option<&[u8]>) -> Result<Scope, TargetError> {
    match text {
        None | Some(b"node") => Ok(Scope::Node),
        Some(b"cluster") => Ok(Scope::Cluster),
        Some(other) => Err(no_word("scope", other, "node or cluster")),
    }
}

pub(super) fn bound(
    name: &'static str,
    value: Option<Cow<'_, [u8]>>,
) -> Result<Option<Vec<u8>>, TargetError> {
    let Some(value) = value else { return Ok(None) };
    Ok(Some(key(name, Some(value))?.into_owned()))
}

/// What a request says about its keys; all of it has to be true of each.
pub(super) struct Bounds {
    pub(super) start: Option<Vec<u8>>,
    pub(super) end: Option<Vec<u8>>,
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) after: Option<Vec<u8>>,
}

impl Bounds {
    /// The keys; if it is not said where they begin, their end.
    pub(super) fn span(self, is_reverse: bool) -> Result<KeySpan, Option<Vec<u8>>> {
        let Bounds { start, mut end, prefix, after } = self;
        if start.is_none() && prefix.is_none() && after.is_none() {
            return Err(end);
        }
        let mut start = start.unwrap_or_default();
        if let Some(prefix) = prefix {
            end = sooner(end, behind_all_of(&prefix));
            start = start.max(prefix);
        }
        // In the order in which they are asked for.
        match after {
            Some(after) if is_reverse => end = sooner(end, Some(after)),
            Some(after) => start = start.max([&after[..], &[0]].concat()),
            None => {}
        }
        Ok(KeySpan { start: Bytes::from(start), end: end.map(Bytes::from), is_reverse })
    }
}

/// The first of two ends; none is behind all keys.
fn sooner(one: Option<Vec<u8>>, other: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The first key behind all that begin with `prefix`, if there can be one.
fn behind_all_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn parse_limit(text: &[u8]) -> Result<u64, TargetError> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    number.filter(|&limit| limit > 0).ok_or_else(|| TargetError::Limit { found: Quote::of(text) })
}

pub(super) fn flag(name: &'static str, value: Option<&[u8]>) -> Result<Option<bool>, TargetError> {
    match value {
        None => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        Some(other) => Err(no_word(name, other, "true or false")),
    }
}

fn no_word(name: &'static str, found: &[u8], expected: &'static str) -> TargetError {
    TargetError::Word { name, found: Quote::of(found), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<RangeTarget, String> {
        RangeTarget::parse(query.trim_start_matches('?').as_bytes(), 1).map_err(|error| error.to_string())
    }

    fn span(query: &str) -> (Vec<u8>, Option<Vec<u8>>) {
        let KeySpan { start, end, .. } = parse(query).expect(query).range.span;
        (start.to_vec(), end.map(|end| end.to_vec()))
    }

    fn keys(start: &[u8], end: Option<&[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
        (start.to_vec(), end.map(<[u8]>::to_vec))
    }

    #[test]
    fn a_range_has_a_start_and_may_have_an_end() {
        assert_eq!(span("?start=a"), keys(b"a", None));
        assert_eq!(span("?end=b&start=a&scope=cluster"), keys(b"a", Some(b"b")));
        for query in [
            "",
            "?start=",
            "?end=b",
            "?start=a&end=",
            "?start=a&end",
            "?start=a&start=b",
            "?start=a&scope=all",
            "?start=a&scope=cluster&replicas=1/2",
            "?prefix=",
            "?after=",
            "?start=a&prefix=",
            "?limit=1&reverse=true",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_prefix_is_all_keys_that_begin_with_it() {
        assert_eq!(span("?prefix=user:"), keys(b"user:", Some(b"user;")));
        assert_eq!(span("?prefix=a%ff%ff"), keys(b"a\xff\xff", Some(b"b")));
        assert_eq!(span("?prefix=%ff"), keys(b"\xff", None));
        assert_eq!(span("?prefix=b&start=a&end=c"), keys(b"b", Some(b"c")));
        assert_eq!(span("?prefix=b&start=bb&end=bc"), keys(b"bb", Some(b"bc")));
    }

    #[test]
    fn what_comes_after_a_key_is_behind_it_or_before_it() {
        assert_eq!(span("?after=k"), keys(b"k\0", None));
        assert_eq!(span("?prefix=k&after=k1"), keys(b"k1\0", Some(b"l")));
        assert_eq!(span("?prefix=k&after=a"), keys(b"k", Some(b"l")));
        assert_eq!(span("?after=k&reverse=true"), keys(b"", Some(b"k")));
        assert_eq!(span("?start=a&end=b&after=k&reverse=true"), keys(b"a", Some(b"b")));
        assert_eq!(span("?prefix=k&after=k1&reverse=true"), keys(b"k", Some(b"k1")));
    }

    #[test]
    fn the_other_parameters_are_words_and_numbers() {
        let plain = parse("?start=a").expect("a range");
        assert_eq!((plain.range.limit, plain.range.span.is_reverse), (None, false));
        assert!(plain.has_values && !plain.is_count);
        let all = parse("?start=a&limit=18446744073709551615&reverse=true&values=false&count=true");
        let all = all.expect("a range");
        assert_eq!((all.range.limit, all.range.span.is_reverse), (Some(u64::MAX), true));
        assert!(!all.has_values && all.is_count);
        for query in [
            "limit=0",
            "limit=",
            "limit=-1",
            "limit=+1",
            "limit=1.5",
            "limit=ten",
            "limit=18446744073709551616",
            "limit=1&limit=1",
            "reverse",
            "reverse=1",
            "reverse=True",
            "values=",
            "values=no",
            "count=yes",
        ] {
            let name = query.split('=').next().expect("a name");
            let refused = parse(&format!("?start=a&{query}"));
            assert!(refused.is_err_and(|error| error.contains(name)), "{query}");
        }
        let refused = parse("?start=a&limit=18446744073709551616").expect_err("more than there can be");
        assert!(refused.ends_with("expected a whole number from 1 to 18446744073709551615"), "{refused}");
    }
}
