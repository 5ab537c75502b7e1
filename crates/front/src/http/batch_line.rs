use bytes::Bytes;
use ladoga_model::{KeyError, Quote, Ttl, TtlError, check_key};
use ladoga_service::Precondition;
use serde::{Deserialize, Deserializer};

use super::base64::decoded;
use super::conditions::{ConditionError, Conditions};

/// The longest line of a batch, without its end.
pub(crate) const LINE_BYTES_MAX: usize = 512 << 10;
/// How much an error repeats of what the reader of JSON says.
const REASON_BYTES_MAX: usize = 240;
/// So much of that is its end, which says what is expected.
const REASON_END_BYTES: usize = 160;

/// A line of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchOperation {
    pub(crate) key: Bytes,
    pub(crate) action: BatchAction,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchAction {
    Get(Conditions),
    Put { value: Bytes, ttl: Option<Ttl>, precondition: Precondition },
    Delete(Precondition),
    Increment { by: i64, precondition: Precondition },
}

/// Why a line is no operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    /// It is none that could be.
    #[error(
        "the line begins with {found}, expected a JSON object on one line, such as {{\"op\":\"get\",\"key\":\"a\"}}"
    )]
    NoObject {
        /// Its beginning.
        found: Quote,
    },
    /// It is none, or it has a member that it cannot have.
    #[error("column {column}: {reason}")]
    Json {
        /// Where, from 1.
        column: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such operation.
    #[error("op is {found}, expected get, put, delete or increment")]
    NoOperation {
        /// What it is.
        found: Quote,
    },
    /// Neither of two members is there.
    #[error("{name} and {name}_base64 are missing, expected one of them")]
    Missing {
        /// The first one.
        name: &'static str,
    },
    /// Both are.
    #[error("{name} and {name}_base64 are given together, expected one of them")]
    Twice {
        /// The first one.
        name: &'static str,
    },
    /// A text is no Base64.
    #[error("{name}_base64 is {found}, expected Base64 with padding, as RFC 4648 has it in section 4")]
    NoBase64 {
        /// Of which member, without its ending.
        name: &'static str,
        /// What it is.
        found: Quote,
    },
    /// A key is none.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A member has no meaning for the operation.
    #[error("{name} is given, which is only for {of}")]
    NotForThis {
        /// Which member.
        name: &'static str,
        /// What it is for.
        of: &'static str,
    },
    /// It is no time to live.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// A condition is none.
    #[error(transparent)]
    Condition(#[from] ConditionError),
}

/// The members of a line. A member that there is not is an error: a misspelt condition would be none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineMembers {
    op: String,
    #[serde(default, deserialize_with = "given")]
    key: Option<String>,
    #[serde(default, deserialize_with = "given")]
    key_base64: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value_base64: Option<String>,
    #[serde(default, deserialize_with = "given")]
    ttl: Option<String>,
    #[serde(default, deserialize_with = "given")]
    by: Option<i64>,
    #[serde(default, deserialize_with = "given")]
    if_match: Option<String>,
    #[serde(default, deserialize_with = "given")]
    if_none_match: Option<String>,
}

/// A member that may be left out, but not be `null`: who has no `ETag` for a condition must not write without one.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl BatchOperation {
    /// Reads a line.
    pub(crate) fn parse(line: &[u8]) -> Result<BatchOperation, LineError> {
        // A reader of JSON would take an array for an object without names.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err(LineError::NoObject { found: Quote::of(line) });
        }
        let members: LineMembers = serde_json::from_slice(line).map_err(|error| not_json(&error))?;
        members.operation()
    }
}

impl LineMembers {
    fn operation(self) -> Result<BatchOperation, LineError> {
        let key = one_of("key", self.key, self.key_base64)?.ok_or(LineError::Missing { name: "key" })?;
        check_key(&key)?;
        let value = one_of("value", self.value, self.value_base64)?;
        let ttl = self.ttl.map(|ttl| Ttl::parse(ttl.as_bytes())).transpose()?;
        let conditions = Conditions::of_members(self.if_match.as_deref(), self.if_none_match.as_deref())?;
        let action = match &self.op[..] {
            "get" => BatchAction::Get(conditions),
            "put" => BatchAction::Put {
                value: value.clone().ok_or(LineError::Missing { name: "value" })?,
                ttl,
                precondition: conditions.of_write()?,
            },
            "delete" => BatchAction::Delete(conditions.of_write()?),
            "increment" => {
                BatchAction::Increment { by: self.by.unwrap_or(1), precondition: conditions.of_write()? }
            }
            other => return Err(LineError::NoOperation { found: Quote::of(other.as_bytes()) }),
        };
        let is_put = matches!(action, BatchAction::Put { .. });
        let is_increment = matches!(action, BatchAction::Increment { .. });
        for (name, is_given, is_permitted, of) in [
            ("value", value.is_some(), is_put, "put"),
            ("ttl", ttl.is_some(), is_put, "put"),
            ("by", self.by.is_some(), is_increment, "increment"),
        ] {
            if is_given && !is_permitted {
                return Err(LineError::NotForThis { name, of });
            }
        }
        Ok(BatchOperation { key, action })
    }
}

/// Bytes that are given as text or as Base64, if they are given.
fn one_of(
    name: &'static str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Bytes>, LineError> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(LineError::Twice { name }),
        (Some(text), None) => Ok(Some(Bytes::from(text))),
        (None, Some(base64)) => {
            let no_base64 = || LineError::NoBase64 { name, found: Quote::of(base64.as_bytes()) };
            decoded(&base64).map(|bytes| Some(Bytes::from(bytes))).ok_or_else(no_base64)
        }
        (None, None) => Ok(None),
    }
}

/// What the reader of JSON says: it names what it found, which may be long, and anything.
fn not_json(error: &serde_json::Error) -> LineError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let reason = if reason.len() > REASON_BYTES_MAX {
        let begin = reason.floor_char_boundary(REASON_BYTES_MAX - REASON_END_BYTES);
        let end = reason.ceil_char_boundary(reason.len() - REASON_END_BYTES);
        format!("{}...{}", &reason[..begin], &reason[end..])
    } else {
        reason.to_owned()
    };
    let reason = reason.replace("expected i64", "expected a 64-bit integer, such as 1 or -5");
    LineError::Json { column: error.column(), reason: reason.replace(char::is_control, " ") }
}

#[cfg(test)]
#[path = "batch_line_tests.rs"]
mod tests;
