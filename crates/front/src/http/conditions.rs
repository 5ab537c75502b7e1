use std::sync::Arc;

use ladoga_http1::server::Request;
use ladoga_model::{Quote, Version};
use ladoga_service::Precondition;

use super::etag::ETag;

const IF_MATCH: &str = "If-Match";
const IF_NONE_MATCH: &str = "If-None-Match";
/// How many entity tags a request may list.
const TAGS_MAX: usize = 64;

/// What is wrong with the conditions of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConditionError {
    /// It is no list of entity tags.
    #[error(
        "{name} is {found}, expected * alone, or a list of entity tags such as \"0019abcdef012345-0000\", with their quotes"
    )]
    NoTags {
        /// Which one.
        name: &'static str,
        /// What it is.
        found: Quote,
    },
    /// It is a long one.
    #[error("{name} has more than {TAGS_MAX} entity tags")]
    TooManyTags {
        /// Which one.
        name: &'static str,
    },
    /// Of a write.
    #[error("If-None-Match of a write is a list of entity tags, expected *")]
    NoStar,
    /// Of a write that a majority does not agree on.
    #[error(
        "ack is {ack} and from is {from}, expected ack over half of from: a conditional request needs a majority"
    )]
    NoMajority {
        /// How many have to answer.
        ack: u32,
        /// How many there are.
        from: u32,
    },
}

/// One of the two header fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tags {
    /// `*`
    Any,
    /// The versions that it lists. A tag that no node gives out matches nothing, nor does a weak one of `If-Match`.
    Versions(Vec<Version>),
}

impl Tags {
    /// Reads a header field, which may come in several lines; `None` if it is absent.
    fn of(request: &Request, name: &'static str) -> Result<Option<Tags>, ConditionError> {
        let mut lines = request.fields(name);
        let Some(first) = lines.next() else { return Ok(None) };
        let Some(second) = lines.next() else { return Tags::of_one(name, first).map(Some) };
        Tags::list(name, [first, second].into_iter().chain(lines)).map(Some)
    }

    /// Reads one that came in one line.
    fn of_one(name: &'static str, line: &[u8]) -> Result<Tags, ConditionError> {
        if line == b"*" { Ok(Tags::Any) } else { Tags::list(name, [line].into_iter()) }
    }

    fn list<'r>(name: &'static str, lines: impl Iterator<Item = &'r [u8]>) -> Result<Tags, ConditionError> {
        let (mut versions, mut count) = (Vec::new(), 0);
        for line in lines {
            let mut rest = line;
            while let Some((tag, behind)) =
                next_tag(rest).map_err(|()| ConditionError::NoTags { name, found: Quote::of(line) })?
            {
                count += 1;
                if count > TAGS_MAX {
                    return Err(ConditionError::TooManyTags { name });
                }
                // RFC 9110, 13.1: `If-Match` takes the strong comparison, `If-None-Match` the weak one.
                versions.extend(tag.version.filter(|_| !tag.is_weak || name == IF_NONE_MATCH));
                rest = behind;
            }
        }
        // RFC 9110, 5.6.1: a list may have empty elements, but not only those.
        let found = || Quote::of(b"");
        if count == 0 {
            Err(ConditionError::NoTags { name, found: found() })
        } else {
            Ok(Tags::Versions(versions))
        }
    }

    /// Whether the condition holds for this version; `None` means that the key has no value.
    fn matches(&self, version: Option<Version>) -> bool {
        match self {
            Tags::Any => version.is_some(),
            Tags::Versions(versions) => version.is_some_and(|version| versions.contains(&version)),
        }
    }
}

/// An entity tag.
struct Tag {
    is_weak: bool,
    /// The version that it stands for, if it is one that a node may have given out.
    version: Option<Version>,
}

/// A tag of a list, and what is left of the list behind it.
type NextTag<'r> = Option<(Tag, &'r [u8])>;

/// The next tag of a list, with the comma behind it.
fn next_tag(list: &[u8]) -> Result<NextTag<'_>, ()> {
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
    let start = list.iter().position(|byte| !is_between(byte));
    let Some(list) = start.map(|start| &list[start..]) else { return Ok(None) };
    let (is_weak, quoted) = list.strip_prefix(b"W/").map_or((false, list), |quoted| (true, quoted));
    let opaque = quoted.strip_prefix(b"\"").ok_or(())?;
    let end = opaque.iter().position(|&byte| byte == b'"').ok_or(())?;
    let (opaque, behind) = (&opaque[..end], &opaque[end + 1..]);
    // RFC 9110, 8.8.3.
    if !opaque.iter().all(|&byte| byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80) {
        return Err(());
    }
    let behind = behind.trim_ascii_start();
    if !matches!(behind.first(), None | Some(b',')) {
        return Err(());
    }
    Ok(Some((Tag { is_weak, version: ETag::parse(opaque) }, behind)))
}

/// The conditions of a request. Most have none, and cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// What becomes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadVerdict {
    /// The value is sent.
    Send,
    /// `304`
    NotModified,
    /// `412`
    Failed,
}

impl Conditions {
    pub(crate) fn of(request: &Request) -> Result<Conditions, ConditionError> {
        if !request.may_be_conditional {
            return Ok(Conditions::default());
        }
        let if_match = Tags::of(request, IF_MATCH)?;
        Ok(Conditions { if_match, if_none_match: Tags::of(request, IF_NONE_MATCH)? })
    }

    /// Those of a line of a batch, by the names of its members.
    pub(super) fn of_members(
        if_match: Option<&str>,
        if_none_match: Option<&str>,
    ) -> Result<Conditions, ConditionError> {
        let tags =
            |name, text: Option<&str>| text.map(|text| Tags::of_one(name, text.as_bytes())).transpose();
        let if_match = tags("if_match", if_match)?;
        Ok(Conditions { if_match, if_none_match: tags("if_none_match", if_none_match)? })
    }

    /// As a write has them.
    pub(crate) fn of_write(self) -> Result<Precondition, ConditionError> {
        let Conditions { if_match, if_none_match } = self;
        match (if_match, if_none_match) {
            (_, Some(Tags::Versions(_))) => Err(ConditionError::NoStar),
            (None, None) => Ok(Precondition::None),
            (None, Some(Tags::Any)) => Ok(Precondition::IfNoneMatchAny),
            (Some(Tags::Any), None) => Ok(Precondition::IfMatchAny),
            (Some(Tags::Versions(versions)), None) => Ok(Precondition::IfMatch(Arc::from(versions))),
            (Some(_), Some(Tags::Any)) => Ok(Precondition::Never),
        }
    }

    /// What becomes of a read of a value with this version, in the order of RFC 9110, 13.2.2; `None` is that there is no value.
    pub(crate) fn of_read(&self, version: Option<Version>) -> ReadVerdict {
        if self.if_match.as_ref().is_some_and(|tags| !tags.matches(version)) {
            ReadVerdict::Failed
        } else if self.if_none_match.as_ref().is_some_and(|tags| tags.matches(version)) {
            ReadVerdict::NotModified
        } else {
            ReadVerdict::Send
        }
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
